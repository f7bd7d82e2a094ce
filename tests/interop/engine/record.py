"""What every run of every model's scenarios shows: `scenarios.json`, written by `make engine`.

    python -m tests.interop.engine.record [MODEL...]      write the file, or a model's part

Ends with status 1, and writes nothing, where tokens differ between runs, or a scenario is not
proved.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any, get_args

from tests.interop import make_venv
from tests.interop.engine.proofs import disproved
from tests.interop.engine.scenarios import scenarios_of
from tests.interop.engine.session import Session
from tests.interop.engine.trees import Run, RunFailed

__all__ = ["PLAYED", "RESULT", "RUNS", "faults", "recorded"]

RESULT = Path(__file__).resolve().parent / "scenarios.json"
RUNS: tuple[Run, ...] = get_args(Run)
PLAYED = {"heads": 9, "window": 9, "latent": 9}
"""The models, and how often each run's throughput is measured, the runs in turn."""


def recorded(python: str, models: list[str]) -> dict[str, Any]:
    """What the four runs did, model by model, all four engines of a model at the same time."""
    with ExitStack() as open_:
        sessions = [open_.enter_context(Session(python, run, *models)) for run in RUNS]
        return {model: _model(model, sessions) for model in models}


def _model(model: str, sessions: list[Session]) -> dict[str, Any]:
    print(f"{model}: four engines", flush=True)
    started = {s.run: told for s, told in zip(sessions, _all(sessions, "start"), strict=True)}
    played = {s.run: told for s, told in zip(sessions, _all(sessions, "scenarios"), strict=True)}
    rounds: list[dict[Run, Any]] = [
        {s.run: s.ask("measure") for s in sessions} for _ in range(PLAYED[model])
    ]
    _all(sessions, "stop")
    if others := {run for r in rounds for run in RUNS if r[run]["tokens"] != _timed(played[run])}:
        raise RunFailed(f"{model}: other tokens when timed, in {', '.join(sorted(others))}")
    return {
        "started": started,
        "scenarios": {
            name: {
                "tokens": _groups({run: played[run][name]["tokens"] for run in RUNS}),
                "proofs": {run: played[run][name]["proof"] for run in RUNS},
            }
            for name in scenarios_of(model)
        },
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


def faults(models: dict[str, Any]) -> list[str]:
    """What a record must not show, one line each."""
    return [
        f"{model}, {name}: {fault}"
        for model, told in models.items()
        for name, scenario in told["scenarios"].items()
        for fault in _faults(name, scenario)
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
    models = sys.argv[1:] or list(PLAYED)
    told = recorded(python, models)
    for model, one in told.items():
        for clock in ("seconds", "processor"):
            ratios = ", ".join(f"{run} {ratio:.2f}" for run, ratio in one[clock].items())
            print(f"{model}: {clock} for the same tokens, to a's: {ratios}")
    if wrong := faults(told):
        raise SystemExit("\n".join(wrong))
    before = json.loads(RESULT.read_text()) if RESULT.is_file() else {}
    RESULT.write_text(rendered(before | told))
    print(f"wrote {RESULT.relative_to(Path.cwd())}")


def rendered(models: dict[str, Any]) -> str:
    """The text of the file; a list of numbers is one line."""
    text = json.dumps({name: models[name] for name in PLAYED if name in models}, indent=1)
    return re.sub(r"\[[\d\s,]+\]", lambda numbers: " ".join(numbers[0].split()), text) + "\n"


if __name__ == "__main__":
    main()
