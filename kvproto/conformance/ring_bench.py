"""Window layers with a ring per request on the bench: the pool, and the accounts beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch

from kvproto.protocols import (
    RequestPool,
    RequestRingSWA,
    SWARingAllocatorRequest,
    SWARingPoolRequest,
)

from .composite_bench import CompositeBench, leaf_bench
from .kv_bench import LayerStub, WriteLoc
from .window_bench import WindowBench

__all__ = ["RingAllocBench", "RingBench"]


class RingAllocBench(WindowBench):
    """An allocator of full slots beside rings, and the request table whose rows have them."""

    @classmethod
    def suits(cls, pool: Any) -> bool:
        """Can the request table be asked for?"""
        table: object = getattr(pool, "req_to_token_pool", None)
        return isinstance(table, RequestPool)

    @property
    def asked(self) -> SWARingAllocatorRequest:
        """The request, which is one for rings."""
        return cast("SWARingAllocatorRequest", self.request)

    @property
    def cost(self) -> int:
        """Window slots of a ring, in whole pages."""
        return -(-self.asked.swa_req_ring_size // self.page_size) * self.page_size

    @property
    def rows(self) -> int:
        """Rows that can be lent."""
        return self.asked.rows.size + self.asked.rows.pre_alloc_size

    def window_room(self) -> int:
        """What is free of the window."""
        return int(self.pool.swa_available_size())


class RingBench(CompositeBench):
    """A pool of rings. Locations of full layers are full slots, those of window layers ring slots.

    Bare locations are in the space of the layer's leaf; `write_at` gives both.
    """

    serves = RequestRingSWA
    whole: SWARingPoolRequest

    def __init__(self, request: SWARingPoolRequest, pool: Any, seed: int = 0) -> None:
        pair = request.pair
        self.full = leaf_bench(pair.full, pool.full_kv_pool, seed)
        self.window = leaf_bench(pair.window, pool.swa_kv_pool, seed)
        self.full_ids, self.window_ids = (
            pair.full_attention_layer_ids,
            pair.swa_attention_layer_ids,
        )
        sides = ((self.full, self.full_ids), (self.window, self.window_ids))
        super().__init__(request, pool, sides, seed)

    @property
    def page_layer_ids(self) -> Sequence[int]:
        """The full layers: rings are exported as state."""
        return self.full_ids

    @property
    def ring(self) -> int:
        """Slots of a ring."""
        return self.whole.swa_req_ring_size

    def ring_slot(self, row: int, position: int) -> int:
        """Where the row keeps the position."""
        return row * self.ring + position % self.ring

    def write_at(self, places: Sequence[tuple[int, int]], loc: Sequence[int], salt: int) -> None:
        """Row `i` of `pair(n, salt, layer)` at a row's position, and at full location `loc[i]`."""
        window = torch.tensor([self.ring_slot(*place) for place in places])
        both = WriteLoc(torch.tensor(loc), swa_loc=window)
        for layer_id in self.layer_ids:
            k, v = self.pair(len(places), salt, layer_id)
            self.pool.set_kv_buffer(LayerStub(layer_id), both, k, v)
