"""Leaves of every kind that says where its bytes are, and what is at their addresses."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable
from functools import partial
from typing import Any

from kvproto.conformance.specs import SPECS
from kvproto.protocols import BufferRegion, Composite, DeclaresRegions, supports
from kvproto.reference import build_reference_leaf

__all__ = ["KINDS", "build", "fill", "page_bytes", "peek", "region_bytes"]


def peek(address: int, nbytes: int) -> bytes:
    """Bytes of this process."""
    return ctypes.string_at(address, nbytes)


def page_bytes(region: BufferRegion, layer_id: int, page: int) -> bytes:
    """A page of a layer; of an envelope all layers."""
    return peek(region.page_address(layer_id, page), region.bytes_per_page)


def region_bytes(pool: DeclaresRegions) -> list[bytes]:
    """All pages of each base of each region."""
    return [
        b"".join(
            peek(base + page * region.page_stride, region.bytes_per_page)
            for page in range(region.page_count)
        )
        for region in pool.buffer_regions()
        for base in region.bases
    ]


def fill(pool: DeclaresRegions, seed: int = 1) -> None:
    """Other bytes in every page but the reserved one."""
    noise = random.Random(seed)
    for region in pool.buffer_regions():
        for base in region.bases:
            for page in range(1, region.page_count):
                data = noise.randbytes(region.bytes_per_page)
                ctypes.memmove(base + page * region.page_stride, data, len(data))


def _kinds() -> dict[str, Callable[[], Any]]:
    """One of each combination of class, layout and what elements are."""
    found: dict[object, tuple[str, Callable[[], Any]]] = {}
    for spec in SPECS:
        pool = build_reference_leaf(spec.request)
        if supports(pool, Composite) or not supports(pool, DeclaresRegions):
            continue
        regions = pool.buffer_regions()
        if not regions or regions[0].page_count < 4:
            continue
        traits: Any = getattr(pool, "pool_traits", None)
        kind = type(pool), traits, spec.request.page_size > 1, len(regions)
        found.setdefault(kind, (spec.name, partial(build_reference_leaf, spec.request)))
    return dict(found.values())


KINDS = _kinds()


def build(kind: str) -> Any:
    """A fresh leaf."""
    return KINDS[kind]()
