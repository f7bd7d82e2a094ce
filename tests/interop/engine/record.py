"""What every run of every model's scenarios shows: `scenarios.json`, written by `make engine`.

    python -m tests.interop.engine.record [MODEL...]      write the file, or a model's part

Ends with status 1, and writes nothing, where tokens differ between runs, or a scenario is not
proved.
"""

from __future__ import annotations

import json
import statistics
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any, get_args

from tests.interop import make_venv
from tests.interop.engine.models import MODELS
from tests.interop.engine.proofs import disproved
from tests.interop.engine.scenarios import scenarios_of
from tests.interop.engine.session import Session
from tests.interop.engine.trees import Run

__all__ = ["RESULT", "ROUNDS", "RUNS", "faults", "recorded"]

RESULT = Path(__file__).resolve().parent / "scenarios.json"
RUNS: tuple[Run, ...] = get_args(Run)
ROUNDS = 5
"""Times that each run's throughput is measured, the runs in turn."""


def recorded(python: str, models: list[str]) -> dict[str, Any]:
    """What the four runs did, model by model, all four engines of a model at the same time."""
    with ExitStack() as open_:
        sessions = [open_.enter_context(Session(python, run, *models)) for run in RUNS]
        return {model: _model(model, sessions) for model in models}


def _model(model: str, sessions: list[Session]) -> dict[str, Any]:
    print(f"{model}: four engines", flush=True)
    started = {s.run: told for s, told in zip(sessions, _all(sessions, "start"), strict=True)}
    played = {s.run: s.ask("scenarios", seconds=600) for s in sessions}
    rounds = [{s.run: s.ask("measure") for s in sessions} for _ in range(ROUNDS)]
    _all(sessions, "stop")
    return {
        "started": started,
        "scenarios": {
            name: {
                "tokens": _groups({run: played[run][name]["tokens"] for run in RUNS}),
                "proofs": {run: played[run][name]["proof"] for run in RUNS},
            }
            for name in scenarios_of(model)
        },
        "seconds": {
            run: round(statistics.median(r[run]["seconds"] / r["a"]["seconds"] for r in rounds), 2)
            for run in RUNS
        },
    }


def _all(sessions: list[Session], command: str) -> list[dict[str, Any]]:
    for session in sessions:
        session.tell(command)
    return [session.answer(command) for session in sessions]


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
    models = sys.argv[1:] or list(MODELS)
    told = recorded(python, models)
    for model, one in told.items():
        ratios = ", ".join(f"{run} {ratio:.2f}" for run, ratio in one["seconds"].items())
        print(f"{model}: seconds for the same tokens, to a's: {ratios}")
    if wrong := faults(told):
        raise SystemExit("\n".join(wrong))
    before = json.loads(RESULT.read_text()) if RESULT.is_file() else {}
    RESULT.write_text(rendered(before | told))
    print(f"wrote {RESULT.relative_to(Path.cwd())}")


def rendered(models: dict[str, Any]) -> str:
    """The text of the file: lists on one line each."""
    return json.dumps({name: models[name] for name in MODELS if name in models}, indent=1) + "\n"


if __name__ == "__main__":
    main()
