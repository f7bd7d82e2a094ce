"""Every class of sglang's that derives from a pool, an allocator or a request table, by name.

Read from its source: some can be imported on their vendor's machines only.
"""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

__all__ = ["ROOTS", "census"]

ROOTS = {
    "KVCache",
    "BaseTokenToKVPoolAllocator",
    "ReqToTokenPool",
    "DecodeReqToTokenPool",
    "MambaPool",
    "MambaSlotAllocator",
    "CompressStatePool",
}
"""Where families begin; the last four derive from nothing, and stand beside the first three."""

CLASS = re.compile(r"^class\s+(\w+)\s*(?:\(([^)]*)\))?\s*:", re.MULTILINE)


def census() -> list[str]:
    """The roots and all that derive from one, directly or not, sorted."""
    bases = _bases()
    found = ROOTS & set(bases)
    while more := {name for name, above in bases.items() if above & found} - found:
        found |= more
    return sorted(found)


def _bases() -> dict[str, set[str]]:
    """Each class of the package, with the last part of the names it derives from."""
    spec = find_spec("sglang")
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError("sglang is not installed here")
    bases: dict[str, set[str]] = {}
    for file in (Path(spec.submodule_search_locations[0]) / "srt").rglob("*.py"):
        for name, above in CLASS.findall(file.read_text(errors="replace")):
            bases.setdefault(name, set()).update(re.findall(r"(\w+)\s*(?=[,\[\s]|$)", above))
    return bases
