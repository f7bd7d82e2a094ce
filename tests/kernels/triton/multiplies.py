"""Finds addresses that 32-bit products of run-time values go into.

A location times the bytes of a row passes 2^31 in pools of a few gigabytes: such a product is to be
taken in 64 bits. Read from TTIR, in which nothing was rewritten yet.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["narrow_multiplies"]

_LINE = re.compile(r"^\s*(?P<results>%[\w:, %]+?) = (?P<what>.+)$")
_NAME = re.compile(r"%[\w.]+(?:#\d+)?")
_NARROW = re.compile(r"arith\.muli .*: (?:tensor<[\dx]+x)?i32>?\s*(?:loc\(.*\))?$")
_REGION = re.compile(r"\bscf\.(for|if|while)\b.*\{")
_CARRIED = re.compile(r"(%[\w.]+) = (%[\w.]+)(?=[,)])")
_STOPS = ("tt.load", "tt.atomic", "tt.reduce", "tt.scan")
"""Values, whose own addresses are looked at on their own."""


def narrow_multiplies(ttir: str) -> Iterator[str]:
    """Every line with an i32 `muli` of something not constant, on the way to a `tt.addptr`."""
    made = _definitions(ttir)
    waiting = [
        name for line in made.values() if line.startswith("tt.addptr") for name in _operands(line)
    ]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in seen or name not in made:
            continue
        seen.add(name)
        line = made[name]
        if line.startswith(_STOPS):
            continue
        if _NARROW.match(line) and not _constant(name, made):
            yield line
        waiting += _operands(line)


def _definitions(ttir: str) -> dict[str, str]:
    """What makes each value; what a loop carries is made of where it starts and what is yielded."""
    made: dict[str, str] = {}
    open_regions: list[tuple[list[str], list[str]]] = []
    for line in ttir.splitlines():
        found = _LINE.match(line)
        results = [name.split(":")[0] for name in _NAME.findall(found["results"])] if found else []
        for name in results:
            made[name] = found["what"].strip() if found else ""
        if _REGION.search(line):
            carried = _CARRIED.findall(line)
            made.update({name: f"carried {start}" for name, start in carried})
            open_regions.append((results, [name for name, _ in carried]))
        elif line.strip().startswith("scf.yield") and open_regions:
            yielded, (into, around) = _operands(line), open_regions[-1]
            for name in into:
                made[name] += f" {' '.join(yielded)}"
            for name, value in zip(around, yielded):  # noqa: B905  # an `if` carries nothing
                made[name] += f" {value}"
        elif re.match(r"\s*\}(?! else|\))", line) and open_regions:
            open_regions.pop()
    return made


def _operands(line: str) -> list[str]:
    return [name.split("#")[0] for name in _NAME.findall(line)]


def _constant(name: str, made: dict[str, str]) -> bool:
    """Known when compiled: of ranges and constants alone."""
    if name not in made:
        return False  # an argument of the kernel, or of a loop
    line = made[name]
    if line.startswith(("arith.constant", "tt.make_range")):
        return True
    if line.startswith(("arith.", "tt.splat", "tt.expand_dims", "tt.broadcast", "tt.reshape")):
        return all(_constant(each, made) for each in _operands(line))
    return False
