"""A package `sglang` of links to the real one, with some files of its own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

__all__ = ["overlay"]


def overlay(srt: Path, files: Mapping[str, bytes], top: Path) -> None:
    """`files` by their place below `srt`, the real folder; `top` is there and empty."""
    (top / "sglang").mkdir()
    for child in srt.parent.iterdir():
        if child.name not in {"srt", "__pycache__"}:
            (top / "sglang" / child.name).symlink_to(child)
    for folder, folders, names in os.walk(srt):
        folders[:] = [name for name in folders if name != "__pycache__"]
        here = Path(folder).relative_to(srt)
        (top / "sglang" / "srt" / here).mkdir()
        for name in names:
            file = top / "sglang" / "srt" / here / name
            if (here / name).as_posix() in files:
                file.write_bytes(files[(here / name).as_posix()])
            else:
                file.symlink_to(srt / here / name)
