"""What every run of every setting's scenarios shows: `scenarios.json`, written by `make engine`.

    python -m tests.interop.engine.record [SETTING...]    write the file, or a setting's part

Ends with status 1, and does not write a setting, where tokens differ between runs, where a scenario
is not proved, or where it seems proved with a pool that is at fault.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, get_args

from tests.interop import make_venv
from tests.interop.engine.faults import AT_FAULT
from tests.interop.engine.proofs import disproved
from tests.interop.engine.scenarios import scenarios_of
from tests.interop.engine.session import Session
from tests.interop.engine.settings import SETTINGS
from tests.interop.engine.trees import Run, RunFailed, digest

__all__ = ["RESULT", "ROUNDS", "RUNS", "faults", "recorded"]

RESULT = Path(__file__).resolve().parent / "scenarios.json"
RUNS: tuple[Run, ...] = get_args(Run)
TIMED = ("heads", "window", "latent")
ROUNDS = 3
"""Of the runs in turn, each of which measures its throughput."""


def recorded(python: str, names: list[str]) -> Iterator[dict[str, Any]]:
    """What the four runs did, setting by setting, all four engines of one at the same time."""
    with ExitStack() as open_:
        sessions = [open_.enter_context(Session(python, run, *names)) for run in RUNS]
        at_fault = open_.enter_context(Session(python, "c", *(f"{name}+faults" for name in names)))
        code = digest(python)
        for name in names:
            yield {name: _setting(name, sessions) | _at_fault(at_fault, code)}


def _at_fault(session: Session, code: str) -> dict[str, Any]:
    session.ask("start", seconds=1200)
    played = session.ask("scenarios " + " ".join(AT_FAULT), seconds=1200)
    session.ask("stop")
    said = {name: disproved(name, scenario["proof"]) for name, scenario in played.items()}
    return {"at fault": said, "code": code}


def _setting(name: str, sessions: list[Session]) -> dict[str, Any]:
    print(f"{name}: four engines", flush=True)
    started = {s.run: told for s, told in zip(sessions, _all(sessions, "start"), strict=True)}
    played = {s.run: told for s, told in zip(sessions, _all(sessions, "scenarios"), strict=True)}
    rounds: list[dict[Run, Any]] = [
        {s.run: s.ask("measure") for s in sessions} for _ in range(ROUNDS if name in TIMED else 0)
    ]
    _all(sessions, "stop")
    if others := {run for r in rounds for run in RUNS if r[run]["tokens"] != _timed(played[run])}:
        raise RunFailed(f"{name}: other tokens when timed, in {', '.join(sorted(others))}")
    scenarios = {
        each: {
            "tokens": _groups({run: played[run][each]["tokens"] for run in RUNS}),
            "proofs": {run: played[run][each]["proof"] for run in RUNS},
        }
        for each in scenarios_of(SETTINGS[name])
    }
    return {"started": started, "scenarios": scenarios} | (_clocks(rounds) if rounds else {})


def _clocks(rounds: list[dict[Run, Any]]) -> dict[str, Any]:
    return {
        "seconds": {run: round(_seconds(rounds, run), 2) for run in RUNS},
        "processor": {run: round(_processor(rounds, run), 2) for run in RUNS},
    }


def _timed(scenarios: dict[str, Any]) -> list[list[int]]:
    """What the timed requests have to give: they are those of this scenario."""
    tokens: list[list[int]] = scenarios["together"]["tokens"]
    return tokens


def _seconds(rounds: list[dict[Run, Any]], run: Run) -> float:
    """To a's: the median of the rounds."""
    return statistics.median(float(r[run]["seconds"] / r["a"]["seconds"]) for r in rounds)


def _processor(rounds: list[dict[Run, Any]], run: Run) -> float:
    """To a's, of all rounds together: a clock of processor time ticks slowly."""
    spent, of_a = (sum(float(r[one]["processor"]) for r in rounds) for one in (run, RUNS[0]))
    return spent / of_a


def _all(sessions: list[Session], command: str) -> list[dict[str, Any]]:
    for session in sessions:
        session.tell(command)
    return [session.answer(command, seconds=1200) for session in sessions]


def _groups(tokens: dict[str, list[list[int]]]) -> list[dict[str, Any]]:
    """The runs with the same tokens, as one string, and these: one group where all agree."""
    groups: list[dict[str, Any]] = []
    for run, drawn in tokens.items():
        for group in groups:
            if group["tokens"] == drawn:
                group["runs"] += run
                break
        else:
            groups.append({"runs": run, "tokens": drawn})
    return groups


def faults(settings: dict[str, Any]) -> list[str]:
    """What a record must not show, one line each."""
    return [
        f"{setting}, {name}: {fault}"
        for setting, told in settings.items()
        for name, scenario in told["scenarios"].items()
        for fault in _faults(name, scenario)
    ] + [
        f"{setting}, {name}: a fault of the pool was not noticed"
        for setting, told in settings.items()
        for name, words in AT_FAULT.items()
        if words not in told["at fault"][name]
    ]


def _faults(name: str, scenario: dict[str, Any]) -> list[str]:
    together = "".join(RUNS)
    runs = [group["runs"] for group in scenario["tokens"]]
    others = [] if runs == [together] else [f"tokens differ: {' and '.join(runs)}"]
    return others + [
        f"run {run}: {fault}"
        for run, proof in scenario["proofs"].items()
        for fault in disproved(name, proof)
    ]


def main() -> None:
    python = make_venv.usable_python()
    if python is None:
        raise SystemExit(f"did not run: {make_venv.cannot_run() or make_venv.not_built()}")
    wrong: list[str] = []
    for told in recorded(python, sys.argv[1:] or list(SETTINGS)):
        wrong += faults(told)
        if not faults(told):
            before = json.loads(RESULT.read_text()) if RESULT.is_file() else {}
            RESULT.write_text(rendered(before | told))
            print(f"wrote {', '.join(told)}", flush=True)
    if wrong:
        raise SystemExit("\n".join(wrong))


def rendered(settings: dict[str, Any]) -> str:
    """The text of the file; a list of numbers is one line."""
    text = json.dumps({name: settings[name] for name in SETTINGS if name in settings}, indent=1)
    return re.sub(r"\[[\d\s,]+\]", lambda numbers: " ".join(numbers[0].split()), text) + "\n"


if __name__ == "__main__":
    main()
