"""Runs the probe in `.interop-venv` and writes its answers as the reviewed files of `results/`.

python -m tests.interop.report        write the files anew, after a change that was meant
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from tests.interop import make_venv

__all__ = ["RESULTS", "ProbeFailed", "rendered", "run_probe"]

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RESULTS = HERE / "results"
ENVIRONMENT = {
    "CUDA_VISIBLE_DEVICES": "",
    "PYTHONPATH": f"{HERE / 'site'}{os.pathsep}{ROOT}",
    "PYTHONWARNINGS": "ignore",
    "TORCHDYNAMO_DISABLE": "1",
    "TRITON_INTERPRET": "1",
}
"""The stand-in operators and the repository; no GPU, no compiler, Triton kernels interpreted."""


class ProbeFailed(Exception):
    """The probe itself ended badly, or one of its sections raised."""


def run_probe(python: str) -> dict[str, Any]:
    """Everything the real pools answer.

    :raises ProbeFailed: with the end of what the process said.
    """
    with tempfile.TemporaryDirectory() as scratch:
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("SGLANG_", "KVPROTO_"))}
        done = subprocess.run(
            [python, "-m", "tests.interop.probe"],
            env=clean | ENVIRONMENT | {"SGLANG_CACHE_DIR": scratch},
            cwd=scratch,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    if done.returncode != 0 or not done.stdout.strip():
        end = "\n".join(done.stderr.splitlines()[-30:])
        raise ProbeFailed(f"the probe ended with status {done.returncode}:\n{end}")
    answers: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answers


def section(answers: dict[str, Any], name: str) -> dict[str, Any]:
    """One section of the answers.

    :raises ProbeFailed: when that section raised, with its traceback.
    """
    found: dict[str, Any] = answers[name]
    if set(found) == {"error"}:
        raise ProbeFailed(f"section {name} of the probe:\n{found['error']}")
    return found


def rendered(answers: dict[str, Any]) -> dict[str, str]:
    """The text of each file of `results/`, by its name: one line a fact, sorted."""
    files = {
        "capabilities.json": _capabilities(section(answers, "capabilities")),
        "advertised.json": section(answers, "advertised"),
        "laws.json": {pool: _laws(laws) for pool, laws in section(answers, "laws").items()},
    }
    return {
        name: json.dumps({"sglang": answers["versions"]["sglang"]} | content, indent=1) + "\n"
        for name, content in files.items()
    }


def _capabilities(found: dict[str, Any]) -> dict[str, Any]:
    return {
        "instances": {
            name: {
                "satisfies": ", ".join(answer["satisfies"]),
                "nearly": {cap: "; ".join(why) for cap, why in sorted(answer["near"].items())},
            }
            for name, answer in sorted(found["instances"].items())
        },
        "classes": {name: ", ".join(names) for name, names in sorted(found["classes"].items())},
    }


def _laws(laws: dict[str, dict[str, dict[str, str]]]) -> dict[str, str]:
    return {law: _one_line(by_status) for law, by_status in sorted(laws.items())}


def _one_line(by_status: dict[str, dict[str, str]]) -> str:
    """How often each came out, and the first thing found where it was not "passed"."""
    total = sum(len(specs) for specs in by_status.values())
    counts = ", ".join(f"{len(specs)} {status}" for status, specs in sorted(by_status.items()))
    found = [why for _, specs in sorted(by_status.items()) for why in specs.values() if why]
    return f"of {total}: {counts}" + (f"; {found[0]}" if found else "")


def main() -> None:
    python = make_venv.usable_python()
    if python is None:
        raise SystemExit(f"did not run: {make_venv.cannot_run() or make_venv.not_built()}")
    for name, text in rendered(run_probe(python)).items():
        (RESULTS / name).write_text(text)
        print(f"wrote tests/interop/results/{name}")


if __name__ == "__main__":
    main()
