"""Composites on the bench: each layer is read in the leaf it lives in, never through the pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from kvproto.protocols import (
    BlockScaled,
    HybridComposite,
    HybridPoolRequest,
    KVLeaf,
    Layout,
    LeafRequest,
    MHALeafRequest,
    SWAComposite,
    SWAPoolRequest,
    supports,
)

from .block_bench import BlockBench, block_bench
from .kv_bench import KVBench, LayerStub, Side, WriteLoc
from .latent_bench import LatentBench
from .row_access import RowAccess
from .state_bench import StateBench

__all__ = ["CompositeBench", "HybridBench", "SWABench", "leaf_bench", "numbers"]


def numbers(tensor: Tensor) -> list[int]:
    """The elements of a tensor of integers, in order."""
    return [int(each) for each in tensor.flatten()]


class CompositeBench(KVBench):
    """A pool over leaves. Laws of `KVPool` run on it as they do on a leaf.

    Which layer is whose, and where its rows are, follows from `whole`, the request for the
    composite, and from the leaves; `request` is that of the first leaf that owns a layer.
    """

    serves: ClassVar[type]

    def __init__(
        self, whole: Any, pool: Any, sides: Sequence[tuple[KVBench, tuple[int, ...]]], seed: int
    ) -> None:
        owning = [bench for bench, ids in sides if ids] or [sides[0][0]]
        super().__init__(owning[0].request, owning[0].pool, seed)
        self.pool = pool
        self.whole = whole
        self._owning = owning
        self._sides = [bench for bench, _ in sides]
        for bench in self._sides:
            self.looks_through(bench)
        self.places = {
            layer_id: (bench, bench.layer_ids[index])
            for bench, ids in sides
            for index, layer_id in enumerate(ids)
        }

    @classmethod
    def suits(cls, pool: object) -> bool:
        """Is it the composite that was asked for, so that its leaves can be looked at?"""
        return isinstance(pool, cls.serves)

    def look_through(self, row_access: RowAccess) -> None:
        """Of the leaves, whose rows they are."""
        super().look_through(row_access)
        for bench in self._sides:
            bench.look_through(row_access)

    def sibling(self, pool: Any, request: Any = None) -> Self:
        """Built for a composite, as this one was."""
        return super().sibling(pool, self.whole if request is None else request)

    @property
    def layer_ids(self) -> Sequence[int]:
        """The global ids of all layers with rows, side after side."""
        return list(self.places)

    @property
    def owning_leaves(self) -> list[KVLeaf]:
        """The leaves with layers among the pool's own `leaves()`."""
        parts = (leaf for _, leaf in self.pool.leaves())
        return [leaf for leaf in parts if supports(leaf, KVLeaf) and leaf.layer_num]

    def place(self, layer_id: int | None = None) -> tuple[KVBench, int]:
        """The bench of a layer's leaf, and the layer's id there; of the first layer by default."""
        return self.places[self.layer_ids[0] if layer_id is None else layer_id]

    def row_shape(self, side: Side, layer_id: int | None = None) -> tuple[int, int]:
        """Heads and width of a row of that layer."""
        if not self.places:
            return super().row_shape(side)
        return self.place(layer_id)[0].row_shape(side)

    def layout_of(self, layer_id: int) -> Layout:
        """How the rows of the layer's leaf were asked to lie."""
        bench, leaf_id = self.place(layer_id)
        return bench.layout_of(leaf_id)

    @property
    def read_dtype(self) -> torch.dtype:
        """That of the first leaf which owns a layer."""
        return self._owning[0].read_dtype

    @property
    def reads_copies(self) -> bool:
        """Whether a leaf's read doors do."""
        return any(bench.reads_copies for bench in self._owning)

    def as_shown(self, door: Tensor, side: Side, layer_id: int) -> tuple[Tensor, Tensor]:
        """As the layer's leaf is compared."""
        bench, leaf_id = self.place(layer_id)
        return bench.as_shown(door, side, leaf_id)

    def rows(self, side: Side, n: int, salt: int = 0, layer_id: int | None = None) -> Tensor:
        """Rows that the layer's leaf holds exactly."""
        if not self.places:
            return super().rows(side, n, salt)
        bench, leaf_id = self.place(layer_id)
        return bench.rows(side, n, salt, leaf_id)

    def stored_raw(self, side: Side, layer_id: int | None = None) -> Tensor:
        """All rows of a layer, as its leaf's oracle finds them."""
        bench, leaf_id = self.place(layer_id)
        return bench.stored_raw(side, leaf_id)

    def shows_leaf(self, layer_id: int, place: tuple[KVLeaf, int] | None = None) -> bool:
        """Is the key buffer of a layer that of its leaf, or of the leaf and id given?

        Where doors make copies: one that shows a row just written to that leaf.
        """
        bench, leaf_id = self.place(layer_id)
        leaf, asked_id = place or (bench.pool, leaf_id)
        if self.reads_copies:
            bench.write(torch.tensor([1]), *bench.pair(1, layer_id, leaf_id), leaf_id)
        one, other = self.pool.get_key_buffer(layer_id), leaf.get_key_buffer(asked_id)
        return torch.equal(one, other) if self.reads_copies else one.data_ptr() == other.data_ptr()

    def token_bytes(self, layer_id: int | None = None) -> int:
        """Bytes of a token in a layer: its rows, and what goes by the same page.

        That is its index key, and its block scales where the composite has no list for them.
        """
        bench, leaf_id = self.place(layer_id)
        keys = _keyed(bench, leaf_id)
        beside = keys.index_page_bytes // keys.request.page_size if keys else 0
        if isinstance(bench, BlockBench) and not supports(self.pool, BlockScaled):
            beside += bench.scale_bytes()
        return bench.token_bytes() + beside

    @property
    def index_kpool(self) -> int:
        """Of the leaf whose tokens share an index key."""
        return max(bench.index_kpool for bench in self._owning)

    def contents(self, layer_id: int) -> list[Tensor]:
        """Everything a layer holds in its leaf: its rows, then index keys and scales if any."""
        bench, leaf_id = self.place(layer_id)
        rows = [self.stored(side, layer_id) for side in self.sides]
        return [*rows, *bench.oracle.index(leaf_id)] if _keyed(bench, leaf_id) else rows

    def slots_in(self, layer_id: int | None = None) -> int:
        """Rows of the buffers of the layer's leaf."""
        return self.place(layer_id)[0].slots

    def write_all_slots(self) -> None:
        """Rows and index keys, none zero, in every slot but 0 of every leaf; past the composite."""
        for layer_id, (leaf, leaf_id) in self.places.items():
            k, v = leaf.pair(leaf.slots, salt=layer_id)
            leaf.write(torch.arange(1, leaf.slots), k[1:], v[1:], leaf_id)
        for leaf in self._owning:
            if isinstance(leaf, LatentBench) and leaf.index_head_dim:
                leaf.fill_index()

    def expect_written(
        self, call: str, written: Mapping[int, Mapping[int, int]], salt: int = 0, n: int = 8
    ) -> None:
        """By layer, and there by row of its leaf: row `i` of `pair(n, salt, layer)`, nothing else.

        Layers that are not named hold nothing.
        """
        for layer_id in self.layer_ids:
            pair = self.pair(n, salt, layer_id)
            for side, rows in zip(self.sides, pair, strict=False):
                expected = torch.zeros(self.slots_in(layer_id), *self.row_shape(side, layer_id))
                for row, index in written.get(layer_id, {}).items():
                    expected[row] = rows[index].float()
                found = self.stored(side, layer_id)
                self.expect_same(call, found, expected, f"layer {layer_id}, {side} row")


class SWABench(CompositeBench):
    """A window pair with a table registered, as an allocator would.

    Pages of the full space have peers in another order, some have none; the reserved page is
    its own peer. `table` is the bench's own copy, the pool holds `live`.
    """

    serves = SWAComposite
    whole: SWAPoolRequest

    def __init__(self, request: SWAPoolRequest, pool: Any, seed: int = 0) -> None:
        full = leaf_bench(request.full, pool.full_kv_pool, seed)
        window = leaf_bench(request.window, pool.swa_kv_pool, seed)
        full_ids, window_ids = request.full_attention_layer_ids, request.swa_attention_layer_ids
        super().__init__(request, pool, ((full, full_ids), (window, window_ids)), seed)
        self.full, self.window = full, window
        self.full_ids, self.window_ids = full_ids, window_ids
        self.table = _table(full, window)
        self.live = self.table.clone()

    def prepare(self) -> None:
        """Register the table, as the allocator does."""
        self.pool.register_mapping(self.live)

    @property
    def slots(self) -> int:
        """Slots of the full space, which callers' locations are in."""
        return self.full.slots

    @property
    def page_layer_ids(self) -> Sequence[int]:
        """The full layers: window layers are exported as state."""
        return self.full_ids

    def slot_of(self, loc: int, layer_id: int | None = None) -> int:
        """Window layers keep a location's row at its peer."""
        return int(self.table[loc]) if self.place(layer_id)[0] is self.window else loc

    @property
    def mapped(self) -> list[int]:
        """Usable full locations that have a peer, in order."""
        page = self.full.request.page_size
        return [loc for loc in range(page, self.slots) if self.table[loc] > 0]

    @property
    def unmapped(self) -> list[int]:
        """Usable full locations that have none."""
        page = self.full.request.page_size
        return [loc for loc in range(page, self.slots) if self.table[loc] == 0]

    def peers(self, loc: Sequence[int]) -> list[int]:
        """The window rows of full locations by the bench's own table, 0 for none."""
        return [int(self.table[each]) if each > 0 else 0 for each in loc]

    def write_everywhere(self, loc: Sequence[int], salt: int = 0, n: int = 8) -> None:
        """Write row `i` of `pair(n, salt, layer)` to `loc[i]` of every layer, by bare locations."""
        where = torch.tensor(loc)
        for layer_id in self.layer_ids:
            k, v = self.pair(n, salt, layer_id)
            self.write(where, k[: len(loc)], v[: len(loc)], layer_id)

    def everywhere(self, loc: Mapping[int, int]) -> dict[int, dict[int, int]]:
        """For `expect_written`: these rows, by full location, in every layer that has them."""
        return {
            layer_id: {slot: i for at, i in loc.items() if (slot := self.slot_of(at, layer_id))}
            for layer_id in self.layer_ids
        }

    def write_form(self, loc: Tensor | WriteLoc, k: Tensor, v: Tensor, layer_id: int) -> None:
        """`set_kv_buffer` with a bare tensor, or the object that attention backends pass."""
        self.pool.set_kv_buffer(LayerStub(layer_id), loc, k, v)


class HybridBench(CompositeBench):
    """A hybrid: the doors' layers are the leaf's, `state` is a bench for the rest."""

    serves = HybridComposite
    whole: HybridPoolRequest

    def __init__(self, request: HybridPoolRequest, pool: Any, seed: int = 0) -> None:
        self.full = leaf_bench(request.full, pool.full_kv_pool, seed)
        super().__init__(request, pool, ((self.full, request.full_attention_layer_ids),), seed)
        self.state = StateBench(request.state, pool.mamba_pool, seed)
        self.looks_through(self.state)


def _keyed(bench: KVBench, leaf_id: int) -> LatentBench | None:
    """The bench, if that layer of its leaf has index keys of its own."""
    if isinstance(bench, LatentBench) and bench.index_head_dim and leaf_id in bench.index_layers:
        return bench
    return None


def leaf_bench(request: LeafRequest, leaf: KVLeaf, seed: int) -> KVBench:
    """The leaf keeps the ids it was built with, which need not be the request's."""
    plain = KVBench if isinstance(request, MHALeafRequest) else LatentBench
    kind = block_bench(request) or plain
    return kind(replace(request, start_layer=leaf.start_layer), leaf, seed)


def _table(full: KVBench, window: KVBench) -> Tensor:
    page, last = full.request.page_size, full.slots // full.request.page_size - 1
    table = torch.zeros(full.slots + 1, dtype=torch.int64)
    table[-1] = -1
    held = window.slots // page - 1
    offsets = torch.arange(page)
    for peer, full_page in enumerate([0, last, *range(1, last)][:held]):
        table[full_page * page + offsets] = peer * page + offsets
    return table
