"""Runs the two checkers on files of this repository, with the repository's own settings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
PYPROJECT = REPOSITORY / "pyproject.toml"


@dataclass(frozen=True)
class Complaint:
    file: Path
    line: int
    code: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text} [{self.code}]"


def complaints(checker: str, paths: Sequence[str], directory: Path) -> list[Complaint]:
    """What a checker says of `paths`, relative to `directory`, and of nothing that they import."""
    run = {"mypy": _mypy, "pyright": _pyright}[checker]
    roots = [directory / path for path in paths]
    found = run(paths, directory)
    return [c for c in found if any((directory / c.file).is_relative_to(root) for root in roots)]


def _mypy(paths: Sequence[str], directory: Path) -> list[Complaint]:
    # One cache for all: what mypy knows of torch is slow to learn.
    cache = ["--cache-dir", str(REPOSITORY / ".mypy_cache")]
    options = ["--output=json", "--no-error-summary", "--config-file", str(PYPROJECT)]
    output = _run(["mypy", *options, *cache, *paths], directory)
    entries = [json.loads(line) for line in output.splitlines()]
    return [
        Complaint(Path(entry["file"]), entry["line"], entry["code"], entry["message"])
        for entry in entries
        if entry["severity"] == "error"
    ]


def _pyright(paths: Sequence[str], directory: Path) -> list[Complaint]:
    settings = directory / "pyrightconfig.json"
    if directory != REPOSITORY:
        ours = tomllib.loads(PYPROJECT.read_text())["tool"]["basedpyright"]
        for name in ("include", "exclude", "venv", "venvPath"):
            del ours[name]
        settings.write_text(json.dumps({**ours, "include": list(paths)}))
    options = ["--outputjson", "--pythonpath", sys.executable]
    # pyright takes settings or files, never both.
    arguments = () if settings.exists() else tuple(paths)
    entries = json.loads(_run(("basedpyright", *options, *arguments), directory))
    return [
        Complaint(
            Path(entry["file"]).relative_to(directory),
            entry["range"]["start"]["line"] + 1,
            entry.get("rule", ""),
            entry["message"],
        )
        for entry in entries["generalDiagnostics"]
        if entry["severity"] == "error"
    ]


def _run(command: Sequence[str], directory: Path) -> str:
    # `kvproto` is importable here because it is installed; `typecheck` because it lies here.
    environment = os.environ | {"MYPYPATH": str(REPOSITORY)}
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{command[0]} broke down: {done.stdout}{done.stderr}")
    return done.stdout
