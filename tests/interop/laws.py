# pyright: basic, reportMissingImports=false
"""The kit's verdicts on sglang's real pools, as plain data."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from kvproto.conformance import LawResult, check_pool
from tests.interop import factories

__all__ = ["FAMILIES", "verdicts"]

FAMILIES = [
    "commit",
    "declaration",
    "fp8",
    "host-copy",
    "leaf.device",
    "leaf.empty-and-duplicates",
    "leaf.geometry",
    "leaf.input-unmodified",
    "leaf.layer-transfer-wait",
    "leaf.layers-foreign",
    "leaf.layers-owned",
    "leaf.negative-loc",
    "leaf.out-of-range",
    "leaf.read-doors",
    "leaf.row-width",
    "leaf.slot-zero",
    "leaf.store-dtype",
    "leaf.strided-input",
    "leaf.write-location-object",
    "leaf.write-read",
    "mha",
    "move",
    "size",
    "sync-free",
    "transfer.complete",
    "transfer.item-len",
    "transfer.lists",
    "transfer.mem-pool",
    "transfer.no-layers",
    "transfer.order",
    "write",
]
"""The laws asked of the real pools: others corrupt the memory of this very process there."""


def verdicts() -> dict[str, dict[str, dict[str, dict[str, str]]]]:
    """Pool -> law -> status -> spec -> what was found ("" where the law passed)."""
    pools: tuple[Any, ...] = (factories.mha, factories.mla, factories.swa)
    found = {make.__name__: _by_law(check_pool(make, laws=FAMILIES).results) for make in pools}
    return found | {"slots": _by_law(check_pool(factories.slots).results)}


def _by_law(results: Iterable[LawResult]) -> dict[str, dict[str, dict[str, str]]]:
    found: dict[str, dict[str, dict[str, str]]] = {}
    for result in results:
        specs = found.setdefault(result.law, {}).setdefault(result.status, {})
        specs[result.spec] = _stable(result.detail)
    return found


def _stable(detail: str) -> str:
    """Without what differs from run to run or release to release: addresses and line numbers."""
    return re.sub(r"(?<=\.py):\d+", "", re.sub(r"\b\d{9,}\b", "<address>", detail))
