"""Finds addresses that 32-bit arithmetic of run-time values goes into.

A location times the bytes of a row passes 2^31 in pools of a few gigabytes: such a product is to be
taken in 64 bits. So is a shift, which is one; and a sum of what was read from memory, or of what a
loop, a reduction or a scan adds up, for nothing there says how large it is. Sums of what counts
programs, turns of a loop or elements of a tile are not looked at. Read from TTIR, in which nothing
was rewritten yet.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["narrow_multiplies"]

_LINE = re.compile(r"^\s*(?P<results>%[\w:, %]+?) = (?P<what>.+)$")
_NAME = re.compile(r"%[\w.]+(?:#\d+)?")
_I32 = r"i32>?\s*(?:loc\(.*\))?$"
_PRODUCT = re.compile(rf"arith\.(?:muli|shli) .*: (?:tensor<[\dx]+x)?{_I32}")
_SUM = re.compile(
    rf"(?:arith\.(?:addi|subi) |\"tt\.(?:reduce|scan)\").*: (?:tensor<[\dx]+x)?{_I32}"
)
_RETURN = re.compile(r"\s*tt\.(?:reduce|scan)\.return .*(: \w+)")
_REGION = re.compile(r"\bscf\.(for|if|while)\b.*\{")
_CARRIED = re.compile(r"(%[\w.]+) = (%[\w.]+)(?=[,)])")
_STOPS = ("tt.load", "tt.atomic")
"""Values, whose own addresses are looked at on their own."""


def narrow_multiplies(ttir: str) -> Iterator[str]:
    """Every line with an i32 product or sum that may be large, on the way to a `tt.addptr`."""
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
        product = _PRODUCT.match(line) and not _constant(name, made)
        if product or (_SUM.match(line) and _unbounded(_sources(name, made))):
            yield line
        waiting += _operands(line)


def _definitions(ttir: str) -> dict[str, str]:
    """What makes each value; what a loop carries is made of where it starts and what is yielded."""
    made: dict[str, str] = {}
    combined: list[str] = []
    open_regions: list[tuple[list[str], list[str]]] = []
    for line in ttir.splitlines():
        found = _LINE.match(line)
        results = [name.split(":")[0] for name in _NAME.findall(found["results"])] if found else []
        for name in results:
            made[name] = found["what"].strip() if found else ""
        if line.lstrip().startswith("%") and '"tt.' in line:
            combined = results
        elif returned := _RETURN.match(line):  # the type of what a reduction or a scan makes
            made.update({name: f"{made[name]} {returned[1]}" for name in combined})
        if _REGION.search(line):
            carried = _CARRIED.findall(line)
            made.update({name: f"carried {start}" for name, start in carried})
            if found and "scf.for" in found["what"]:  # its bounds go into nothing that it makes
                starts = " ".join(start for _, start in carried)
                made.update(dict.fromkeys(results, f"carried {starts}"))
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


def _sources(name: str, made: dict[str, str]) -> set[str]:
    """What a value is made of: what was `loaded`, `carried` around a loop, or `given`.

    Given are arguments, of the kernel or of a region. What a comparison says is 0 or 1.
    """
    found: set[str] = set()
    waiting, seen = [name], set[str]()
    while waiting:
        each = waiting.pop()
        if each in seen:
            continue
        seen.add(each)
        line = made.get(each)
        if line is None:
            found.add("given")
        elif line.startswith(_STOPS):
            found.add("loaded")
        elif not line.startswith("arith.cmp"):
            found |= {"carried"} if line.startswith("carried") else set()
            waiting += _operands(line)
    return found


def _unbounded(sources: set[str]) -> bool:
    return "loaded" in sources or sources >= {"carried", "given"}
