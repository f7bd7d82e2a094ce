"""Running mypy and pyright on one file, and reading what they print."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

__all__ = ["CHECKERS", "CheckerFailed", "Message", "command_of", "run_checker"]

CHECKERS = {"mypy": ("mypy",), "pyright": ("basedpyright", "pyright")}
"""Each checker, and the programs that are it, the first preferred."""

_REVEALED = ("Revealed type is ", "Type of ")


class CheckerFailed(Exception):
    """A checker gave no readable answer; the message is one line."""


@dataclass(frozen=True, slots=True)
class Message:
    """What a checker says about a line of the file (counted from 1).

    `revealed` is the type that `reveal_type` asked for, None for an error.
    `why` is the innermost reason, empty where the checker gives none.
    """

    line: int
    text: str
    code: str
    revealed: str | None = None
    why: str = ""


def command_of(checker: str) -> list[str] | None:
    """How to start a checker: from this environment, else from PATH; None where there is none."""
    for program in CHECKERS[checker]:
        if find_spec(program):
            return [sys.executable, "-m", program]
        if found := shutil.which(program):
            return [found]
    return None


def run_checker(
    checker: str, command: list[str], file: Path, roots: Sequence[Path]
) -> list[Message]:
    """The errors and revealed types of `file`, whose imports are also looked for in `roots`.

    Configuration files of the current directory are not read: a verdict depends on the class.

    :raises CheckerFailed: when the checker breaks down.
    """
    if checker == "mypy":
        return _run_mypy(command, file, roots)
    return _run_pyright(command, file, roots)


def _run_mypy(command: list[str], file: Path, roots: Sequence[Path]) -> list[Message]:
    environment = os.environ | {"MYPYPATH": os.pathsep.join(map(str, roots))}
    environment.setdefault("MYPY_CACHE_DIR", str(_cache_directory()))
    options = ["--config-file=", "--output=json", "--follow-imports=silent", "--no-error-summary"]
    python = ["--python-executable", sys.executable]
    done = _run([*command, *options, *python, str(file)], environment)
    if done.returncode not in (0, 1):
        raise _failure("mypy", done)
    entries = _parsed("mypy", done, f"[{','.join(done.stdout.splitlines())}]")
    messages = [_mypy_message(entry) for entry in entries if _is_about(file, entry)]
    return [message for message in messages if message is not None]


def _mypy_message(entry: dict[str, Any]) -> Message | None:
    """None for the notes that accompany an error."""
    text = entry["message"]
    if text.startswith(_REVEALED):
        return Message(entry["line"], text, "", revealed=_readable(text.split('"')[1]))
    return (
        Message(entry["line"], text, entry["code"] or "") if entry["severity"] == "error" else None
    )


def _readable(mypy_type: str) -> str:
    """mypy's spelling of a type in the notation of annotations."""
    short = mypy_type.replace("builtins.", "").replace("torch._tensor.", "").replace(" =", " = ...")
    if not short.startswith("def "):
        return short
    signature = short.removeprefix("def ")
    return signature if signature.rpartition(")")[2] else f"{signature} -> None"


def _run_pyright(command: list[str], file: Path, roots: Sequence[Path]) -> list[Message]:
    settings = {
        "include": [file.name],
        "extraPaths": list(map(str, roots)),
        "typeCheckingMode": "standard",
        "pythonVersion": f"{sys.version_info.major}.{sys.version_info.minor}",
    }
    configuration = file.with_name("pyrightconfig.json")
    configuration.write_text(json.dumps(settings))
    options = ["--outputjson", "--project", str(configuration), "--pythonpath", sys.executable]
    done = _run([*command, *options], dict(os.environ))
    entries = _parsed("pyright", done, done.stdout)["generalDiagnostics"]
    return [
        _pyright_message(entry)
        for entry in entries
        if _is_about(file, entry) and entry["severity"] != "warning"
    ]


def _pyright_message(entry: dict[str, Any]) -> Message:
    line, text = entry["range"]["start"]["line"] + 1, entry["message"]
    if entry["severity"] == "information" and text.startswith(_REVEALED):
        revealed = text.partition('" is "')[2].removesuffix('"')
        return Message(line, text, "", revealed=revealed)
    first, *rest = (part.strip() for part in text.splitlines())
    # The last is the innermost, unless pyright cut it off there.
    reasons = [part for part in rest if part != "..."]
    return Message(line, first, entry.get("rule", ""), why=reasons[-1] if reasons else "")


def _run(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def _parsed(checker: str, done: subprocess.CompletedProcess[str], text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise _failure(checker, done) from None


def _is_about(file: Path, entry: dict[str, Any]) -> bool:
    return Path(entry["file"]).name == file.name


def _failure(checker: str, done: subprocess.CompletedProcess[str]) -> CheckerFailed:
    said = (done.stderr.strip() or done.stdout.strip() or "it printed nothing").splitlines()[0]
    return CheckerFailed(f"{checker} broke down with exit status {done.returncode}: {said}")


def _cache_directory() -> Path:
    """Where mypy keeps what it knows of torch (slow to work out), outside the user's project."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "kvproto" / "mypy"
