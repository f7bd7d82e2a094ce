"""Puts a rewritten tree where it was asked for: as a patch, a copy, or in place."""

from __future__ import annotations

import difflib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kvproto._bad_input import BadInput

from .rewrite_tree import Tree
from .rewritten import Rewritten

__all__ = ["check_free", "patch_of", "write_copy", "write_in_place"]

_LINE = re.compile(rb"[^\n]*\n|[^\n]+")
_QUOTED = re.compile(rb"[\x00-\x1f\"\\\x7f]")


def patch_of(tree: Tree) -> Iterator[bytes]:
    """A patch for `git apply` or `patch -p1`, from the root of the tree; in lines.

    :raises BadInput: for a link to a file that is not in the tree, which no patch can follow.
    """
    _no_links_out(tree, "--diff")
    for file in tree.changed:
        yield from _patch(file)


def check_free(source: Path, folder: Path) -> None:
    """Whether a copy of the source can be put there.

    :raises BadInput: where the folder exists, lies in the source, or has no folder to be in.
    """
    if folder.exists() or folder.is_symlink():
        raise BadInput(f"--apply {folder}: is there already; name a folder that is not")
    if source.is_dir() and folder.resolve().is_relative_to(source.resolve()):
        raise BadInput(f"--apply {folder}: lies in {source}; name a folder outside it")
    if not folder.absolute().parent.is_dir():
        raise BadInput(f"--apply {folder}: there is no folder {folder.parent}; make it first")


def write_copy(tree: Tree, source: Path, folder: Path) -> None:
    """A copy of the whole source, rewritten; it appears complete or not at all.

    :raises BadInput: as `check_free`, and where the folder cannot be written.
    """
    check_free(source, folder)
    try:
        with tempfile.TemporaryDirectory(dir=folder.absolute().parent) as scratch:
            made = Path(scratch) / "tree"
            _copy(source, made)
            for file in tree.changed:
                _write(made / file.file, file.after)
            made.rename(folder)
    except OSError as error:
        raise BadInput(f"--apply {folder}: {error}") from None


def write_in_place(tree: Tree) -> None:
    """The files themselves, each replaced at once.

    :raises BadInput: where one is no longer what was parsed, or is a link to a file that is not in
        the tree (then none is written), or where one cannot be written.
    """
    _no_links_out(tree, "--in-place")
    for file in tree.changed:
        if _read(tree.root / file.file) != file.before:
            raise BadInput(f"--in-place: {file.file} was changed meanwhile: nothing was written")
    for file in tree.changed:
        _replace(tree.root / file.file, file.after)


def _no_links_out(tree: Tree, option: str) -> None:
    for file in tree.changed:
        if (tree.root / file.file).is_symlink():
            target = os.path.realpath(tree.root / file.file)
            raise BadInput(
                f"{option}: {file.file} is a link to {target}, which is not among the files "
                "rewritten: nothing was written; name that file or its folder"
            )


def _patch(file: Rewritten) -> Iterator[bytes]:
    before, after = _LINE.findall(file.before), _LINE.findall(file.after)
    old, new = (_in_patch(side, file.file) for side in ("a", "b"))
    lines = difflib.diff_bytes(difflib.unified_diff, before, after, old, new, lineterm=b"\n")
    for line in lines:
        yield line
        if not line.endswith(b"\n"):
            yield b"\n\\ No newline at end of file\n"


def _in_patch(side: str, file: str) -> bytes:
    """A name as git writes it: quoted where it needs that, with a tab behind one with spaces."""
    name = os.fsencode(f"{side}/{file}")
    if _QUOTED.search(name):
        return b'"' + _QUOTED.sub(lambda found: b"\\%03o" % found.group()[0], name) + b'"'
    return name + b"\t" if b" " in name else name


def _copy(source: Path, made: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, made, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        _lead_links_within(Path(os.path.realpath(source)), Path(os.path.realpath(made)))
    else:
        made.mkdir()
        shutil.copy2(source, made / source.name)


def _lead_links_within(source: Path, made: Path) -> None:
    """Copied links that lead back into the source lead to the same place of the copy instead."""
    for folder, folders, names in os.walk(made):
        for link in (Path(folder) / name for name in (*folders, *names)):
            target = Path(os.path.realpath(source / link.relative_to(made)))
            inside = made / target.relative_to(source) if target.is_relative_to(source) else None
            if link.is_symlink() and inside and Path(os.path.realpath(link)) != inside:
                link.unlink()
                link.symlink_to(os.path.relpath(inside, link.parent))


def _write(made: Path, content: bytes) -> None:
    # A copied link may lead out of the copy, to what must stay.
    made.unlink()
    made.write_bytes(content)


def _read(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except OSError:
        return None


def _replace(file: Path, content: bytes) -> None:
    beside = file.with_name(f".{file.name}.part")
    try:
        beside.write_bytes(content)
        shutil.copymode(file, beside)
        os.replace(beside, file)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise BadInput(f"--in-place: {file}: {error}") from None
