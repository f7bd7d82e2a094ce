"""Asks sglang's real pools in `.interop-venv`, and writes the reviewed files of `results/`.

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
from tests.interop.verdicts import Verdicts, grouped

__all__ = ["RESULTS", "ProbeFailed", "answers_of", "rendered", "run_laws", "run_probe"]

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RESULTS = HERE / "results"
ENVIRONMENT = {
    "CUDA_VISIBLE_DEVICES": "",
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": f"{HERE / 'site'}{os.pathsep}{ROOT}",
    "PYTHONWARNINGS": "ignore",
    "TORCHDYNAMO_DISABLE": "1",
    "TRITON_INTERPRET": "1",
}
"""The stand-in operators and the repository; no GPU, no compiler, Triton kernels interpreted."""


class ProbeFailed(Exception):
    """The probe itself ended badly, or one of its sections raised."""


def run_probe(python: str) -> dict[str, Any]:
    """Everything the real pools answer, but for the laws.

    :raises ProbeFailed: with the end of what the process said.
    """
    return answers_of(python, "tests.interop.probe")


def run_laws(python: str, *arguments: str) -> Verdicts:
    """The kit's verdicts: `--sample`, or all of them, which takes minutes.

    :raises ProbeFailed: as above.
    """
    return answers_of(python, "tests.interop.laws", *arguments, seconds=3600)


def answers_of(python: str, module: str, *arguments: str, seconds: int = 300) -> dict[str, Any]:
    """What a module prints last, an object of JSON, when `python` runs it.

    :raises ProbeFailed: with the end of what the process said.
    """
    with tempfile.TemporaryDirectory() as scratch:
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("SGLANG_", "KVPROTO_"))}
        done = subprocess.run(
            [python, "-m", module, *arguments],
            env=clean | ENVIRONMENT | {"SGLANG_CACHE_DIR": scratch},
            cwd=scratch,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
        )
    if done.returncode != 0 or not done.stdout.strip():
        end = "\n".join(done.stderr.splitlines()[-30:])
        raise ProbeFailed(f"{module} ended with status {done.returncode}:\n{end}")
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
    }
    return {name: _text(answers, content) for name, content in files.items()}


def _text(answers: dict[str, Any], content: dict[str, Any]) -> str:
    return json.dumps({"sglang": answers["versions"]["sglang"]} | content, indent=1) + "\n"


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


def main() -> None:
    python = make_venv.usable_python()
    if python is None:
        raise SystemExit(f"did not run: {make_venv.cannot_run() or make_venv.not_built()}")
    answers = run_probe(python)
    files = rendered(answers) | {"laws.json": _text(answers, grouped(run_laws(python)))}
    for name, text in files.items():
        (RESULTS / name).write_text(text)
        print(f"wrote tests/interop/results/{name}")


if __name__ == "__main__":
    main()
