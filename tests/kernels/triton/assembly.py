"""Reads registers and the widths of memory accesses from what compilers wrote."""

from __future__ import annotations

import re

__all__ = ["gfx_accesses", "gfx_number", "sass_accesses", "usage"]

Widths = tuple[int, ...]

_SASS = re.compile(r"\b(LDG|STG|LDL|STL)\.([A-Z0-9_.]+)")
_SASS_BYTES = {"256": 32, "128": 16, "64": 8, "U16": 2, "S16": 2, "U8": 1, "S8": 1}
_GFX = re.compile(r"\b(?:global|buffer|flat)_(load|store)_([a-z0-9_]+)")
_GFX_BYTES = {
    "dwordx4": 16, "dwordx3": 12, "dwordx2": 8, "dword": 4,
    "ushort": 2, "sshort": 2, "short": 2, "ubyte": 1, "sbyte": 1, "byte": 1,
}  # fmt: skip


def usage(text: str) -> tuple[int, int]:
    """Registers of a thread and bytes of its stack, which is where what spills goes.

    :raises ValueError: for text that states neither.
    """
    found = re.search(r"REG:(\d+) STACK:(\d+)", text)
    if found is None:
        raise ValueError(f"no resource usage in {text!r}")
    return int(found[1]), int(found[2])


def sass_accesses(text: str) -> tuple[Widths, Widths]:
    """Bytes of each global load and store, widest first.

    :raises ValueError: for an access of local memory: something spilled, whatever the stack.
    """
    loads: list[int] = []
    stores: list[int] = []
    for name, suffix in _SASS.findall(text):
        if name in ("LDL", "STL"):
            raise ValueError(f"{name} in\n{text}")
        (loads if name == "LDG" else stores).append(_sass_bytes(suffix.split(".")))
    return _sorted(loads), _sorted(stores)


def gfx_accesses(text: str) -> tuple[Widths, Widths]:
    """Bytes of each global load and store, widest first.

    :raises KeyError: for an access of a kind not known here.
    """
    widths: dict[str, list[int]] = {"load": [], "store": []}
    for kind, name in _GFX.findall(text):
        plain = re.sub(r"_d16(_hi)?", "", name)
        widths[kind].append(_GFX_BYTES[plain])
    return _sorted(widths["load"]), _sorted(widths["store"])


def gfx_number(text: str, name: str) -> int:
    """A number of the kernel's metadata.

    :raises ValueError: where it is not stated.
    """
    found = re.search(rf"\.{name}:\s+(\d+)", text)
    if found is None:
        raise ValueError(f"no {name} in the metadata")
    return int(found[1])


def _sass_bytes(parts: list[str]) -> int:
    return next((_SASS_BYTES[part] for part in parts if part in _SASS_BYTES), 4)


def _sorted(widths: list[int]) -> Widths:
    return tuple(sorted(widths, reverse=True))
