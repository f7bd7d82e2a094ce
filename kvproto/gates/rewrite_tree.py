"""Rewrites a file or a tree in memory, in as many processes as there are processors."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from .exports import Exports, exports_of
from .prefilter import Prefilter
from .profile import Profile
from .rewrite import rewrite
from .rewritten import Left, Rewritten
from .scan import python_files, why_unparsed, without_links

__all__ = ["Tree", "rewrite_tree"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """What a rewrite made of the files under a path; only those with class gates are listed."""

    root: Path
    files: tuple[Rewritten, ...]
    unread: dict[str, str]

    @property
    def changed(self) -> list[Rewritten]:
        """The files that are no longer what they were."""
        return [file for file in self.files if file.after != file.before]

    @property
    def done(self) -> int:
        """How many gates were rewritten."""
        return sum(len(file.done) for file in self.files)

    @property
    def left(self) -> list[Left]:
        """The gates on classes that are as they were."""
        return [left for file in self.files for left in file.left]


def rewrite_tree(
    path: Path, profile: Profile, *, done: Callable[[int, int], None] = lambda _done, _all: None
) -> Tree:
    """Every file under a path, rewritten; nothing is written yet.

    :raises BadInput: where there is no such path.
    """
    named = python_files(path)
    files = without_links(named)
    root = path if path.is_dir() else path.parent
    # Of a lone file nothing is known about who imports from it.
    exports = exports_of(named, profile.exportable) if path.is_dir() else exports_of([], [])
    rewritten: list[Rewritten] = []
    unread: dict[str, str] = {}
    for number, result in enumerate(_each(files, root, profile, exports), start=1):
        if isinstance(result, tuple):
            unread[result[0]] = result[1]
        elif result is not None:
            rewritten.append(result)
        done(number, len(files))
    return Tree(root=root, files=tuple(rewritten), unread=unread)


def _each(
    files: list[Path], root: Path, profile: Profile, exports: Exports
) -> Iterable[Rewritten | tuple[str, str] | None]:
    # Few files hold gates: what is sent to another process is small.
    prefilter = Prefilter(profile)
    chosen: list[Path | None] = [file if _may(file, prefilter) else None for file in files]
    work = partial(_rewrite_file, root=root, profile=profile, exports=exports)
    processes = min(os.cpu_count() or 1, max(1, len(files) // 64))
    if processes == 1:
        yield from map(work, chosen)
        return
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(work, chosen, chunksize=16)


def _may(file: Path, prefilter: Prefilter) -> bool:
    try:
        return prefilter.may_hold_class_gates(file.read_bytes())
    except OSError:
        return True  # the process that gets it says why it cannot be read


def _rewrite_file(
    file: Path | None, root: Path, profile: Profile, exports: Exports
) -> Rewritten | tuple[str, str] | None:
    if file is None:
        return None
    name = file.relative_to(root).as_posix()
    try:
        named = partial(exports.may_be_imported, file.as_posix())
        result = rewrite(file.read_bytes(), name, profile, named)
    except SyntaxError as error:
        return name, why_unparsed(error)
    except (OSError, ValueError, RecursionError) as error:
        return name, f"{type(error).__name__}: {error}"
    return result if result.done or result.left else None
