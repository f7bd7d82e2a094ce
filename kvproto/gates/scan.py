"""Scans a file or a tree, in as many processes as there are processors."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from kvproto._bad_input import BadInput

from .gate import Gate
from .module_gates import gates_of
from .prefilter import Prefilter
from .profile import Profile

__all__ = ["Scan", "python_files", "scan", "why_unparsed", "without_links"]

_SKIPPED = {"__pycache__", "node_modules", ".git", ".venv", ".tox", ".mypy_cache"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What was found under a path. `unread`: file -> why it could not be read or parsed."""

    root: str
    files: int
    parsed: int
    gates: tuple[Gate, ...]
    unread: dict[str, str]


def scan(
    path: Path, profile: Profile, *, done: Callable[[int, int], None] = lambda _done, _all: None
) -> Scan:
    """Every gate under a path; `done(files so far, of all)` is told as files are finished.

    :raises BadInput: where there is no such path.
    """
    files = without_links(python_files(path))
    root = path if path.is_dir() else path.parent
    gates: list[Gate] = []
    unread: dict[str, str] = {}
    parsed = 0
    for number, (file, result) in enumerate(_each(files, root, profile), start=1):
        if isinstance(result, str):
            unread[file] = result
        elif result is not None:
            parsed += 1
            gates += result
        done(number, len(files))
    return Scan(root=str(path), files=len(files), parsed=parsed, gates=tuple(gates), unread=unread)


def python_files(path: Path) -> list[Path]:
    """The file itself, or every `*.py` below a folder, sorted; no links to folders are followed.

    :raises BadInput: where there is no such path or no such file below it, or a folder is closed.
    """
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise BadInput(f"{path}: no such file or folder")
    found: list[Path] = []
    for folder, folders, names in os.walk(path, onerror=_closed):
        folders[:] = sorted(set(folders) - _SKIPPED)
        named = (Path(folder) / name for name in sorted(names) if name.endswith(".py"))
        # Reading a pipe would wait; a link to nothing is named when it is read.
        found += [file for file in named if file.is_file() or file.is_symlink()]
    if not found:
        raise BadInput(f"{path}: there is no Python file in it")
    return found


def _closed(error: OSError) -> None:
    raise BadInput(f"{error.filename}: cannot be read: {error.strerror}")


def without_links(files: list[Path]) -> list[Path]:
    """Each file once, under the name that is no link; links to a file that is not listed stay.

    Hard links stay: each is a file to whoever replaces one of them.
    """
    if not any(file.is_symlink() for file in files):
        return files
    real = {os.path.realpath(file) for file in files if not file.is_symlink()}
    return [f for f in files if not f.is_symlink() or os.path.realpath(f) not in real]


def why_unparsed(error: SyntaxError) -> str:
    """In one line, with the line of the file where that is known."""
    where = f"line {error.lineno}: " if error.lineno else ""
    return f"{where}{error.msg}"


def _each(
    files: list[Path], root: Path, profile: Profile
) -> Iterable[tuple[str, list[Gate] | str | None]]:
    processes = min(os.cpu_count() or 1, max(1, len(files) // 64))
    if processes == 1:
        worker = _Worker(root, profile)
        yield from map(worker.scan, files)
        return
    with ProcessPoolExecutor(processes, initializer=_start, initargs=(root, profile)) as pool:
        yield from pool.map(_scan_file, files, chunksize=16)


class _Worker:
    def __init__(self, root: Path, profile: Profile) -> None:
        self._root = root
        self._profile = profile
        self._prefilter = Prefilter(profile)

    def scan(self, file: Path) -> tuple[str, list[Gate] | str | None]:
        """The gates; or why they cannot be had; or None for a file that was not worth parsing."""
        name = file.relative_to(self._root).as_posix()
        try:
            source = file.read_bytes()
            if not self._prefilter.may_hold_gates(source):
                return name, None
            return name, gates_of(source, name, self._profile)
        except SyntaxError as error:
            return name, why_unparsed(error)
        except (OSError, ValueError, RecursionError) as error:
            return name, f"{type(error).__name__}: {error}"


_worker: _Worker | None = None


def _start(root: Path, profile: Profile) -> None:
    global _worker  # noqa: PLW0603  # one per process, so that the profile is sent to each once
    _worker = _Worker(root, profile)


def _scan_file(file: Path) -> tuple[str, list[Gate] | str | None]:
    if _worker is None:
        raise RuntimeError("a process was started without its worker")
    return _worker.scan(file)
