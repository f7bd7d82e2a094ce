"""Sliding-window attention over a ring of slots per request, outside every token budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import torch
from torch import Tensor

from kvproto.kernels.ring_slots import ring_slots
from kvproto.protocols import (
    KVLeaf,
    MHARows,
    MLALatent,
    PoolTraits,
    Transferable,
    WriteLocation,
    supports,
)

from .combine import what_fits
from .composite_commit import PrefixDoor
from .composite_doors import HeadGeometry, LatentDoors
from .composite_pages import (
    BufInfos,
    Resumes,
    Sizes,
    composite_traits,
    declares_traits,
    exports_pages,
    names_layers,
    page_infos,
    page_layer_ids,
)
from .composite_pool import CompositePool
from .composite_writes import WRITE_DOORS
from .sides import LeafLayer, Side
from .swa import FULL, WINDOW, swa_sides

__all__ = ["SWARingPool", "swa_ring_pool"]


class SWARingPool(CompositePool):
    """Full layers in one leaf; window layers in another, of which each request row has a ring.

    Row `r` of the request table keeps position `p` at window slot `r * ring + p % ring`
    (`ring_slots`). The rings fill the window leaf, from the padding row 0 on, whose ring has the
    reserved slot. No table leads from full locations to rings: a plain tensor is in the space of
    the layer's leaf, an object that carries both spaces serves all layers.

    `swa_valid_from` is the pool's own: int64 `[rows]`, 0 until a consumer writes to it.

    :raises ValueError: for a ring that is not whole pages, a window leaf that is not whole rings
        or does not export its bytes by the page; else as `SWAPool`.
    """

    # Declared, so that a capability check is settled on the class (see `kvproto.adopt`).
    full_kv_pool: KVLeaf
    swa_kv_pool: KVLeaf
    layers_mapping: Mapping[int, tuple[int, bool]]
    swa_req_ring_size: int | None
    request_window: object | None = None
    needs_paged_swa_allocator: bool = False
    swa_valid_from: Tensor | None

    def __init__(
        self,
        *,
        full_kv_pool: KVLeaf,
        swa_kv_pool: KVLeaf,
        full_attention_layer_ids: Sequence[int],
        swa_attention_layer_ids: Sequence[int],
        swa_req_ring_size: int,
        start_layer: int | None = None,
        end_layer: int | None = None,
    ) -> None:
        if full_kv_pool is swa_kv_pool:
            raise ValueError("full_kv_pool and swa_kv_pool are the same leaf")
        sides = swa_sides(
            full_kv_pool, swa_kv_pool, full_attention_layer_ids, swa_attention_layer_ids
        )
        super().__init__(sides, start_layer, end_layer)
        self.full_kv_pool, self.swa_kv_pool = full_kv_pool, swa_kv_pool
        self.layers_mapping = {
            layer_id: (index, side.role == WINDOW)
            for side in sides
            for index, layer_id in enumerate(side.layer_ids)
        }
        if not exports_pages(swa_kv_pool):
            raise ValueError(
                f"{type(swa_kv_pool).__name__} does not export its bytes by the page, so that "
                "its rings could not be sent to a peer"
            )
        self._ring = swa_req_ring_size
        self.num_req_slots = _rings_of(swa_kv_pool, swa_req_ring_size)
        self.swa_req_ring_size = swa_req_ring_size
        self.swa_valid_from = torch.zeros(
            self.num_req_slots, dtype=torch.int64, device=swa_kv_pool.device
        )

    @property
    def swa_layer_nums(self) -> int:
        """Window layers of this stage."""
        return len(self._sides[1].layer_ids)

    @property
    def size_swa(self) -> int:
        """Window slots of all requests, the ring of the padding row not counted."""
        return (self.num_req_slots - 1) * self._ring

    def window_slots(self, req_pool_indices: Tensor, positions: Tensor, /) -> Tensor:
        """Window slots of positions of request rows: int64, same shape; -1 below position 0."""
        return ring_slots(req_pool_indices, positions, self._ring)

    def get_request_state_buf_infos(self) -> BufInfos:
        """The window leaf's regions by the ring: item `r` is all that row `r` has of one."""
        ptrs, lens, item_lens = page_infos(self.swa_kv_pool)
        pages = self._ring // self.page_size
        return ptrs, lens, [item * pages for item in item_lens]

    def clear_request_scoped_state(self, req_pool_idx: int, /) -> None:
        """Zero the ring of a row in every window layer, and call it valid from position 0.

        :raises ValueError: for a row that has no ring; nothing is cleared.
        """
        if not 0 <= req_pool_idx < self.num_req_slots:
            raise ValueError(
                f"req_pool_idx={req_pool_idx}: there are rings for 0..{self.num_req_slots - 1}"
            )
        begin = req_pool_idx * self._ring
        loc = torch.arange(begin, begin + self._ring, device=self.swa_kv_pool.device)
        for layer_id in self._sides[1].layer_ids:
            place = self._place(layer_id)
            place.leaf.set_kv_buffer(place, loc, *_zero_rows(place, self._ring))
        if self.swa_valid_from is not None:
            self.swa_valid_from[req_pool_idx].zero_()

    def _locations(self, place: LeafLayer, loc_info: Tensor | WriteLocation) -> Tensor:
        if isinstance(loc_info, Tensor):
            return loc_info
        if place.role == FULL:
            return loc_info.loc if loc_info.full_loc is None else loc_info.full_loc
        if loc_info.swa_loc is None:
            raise ValueError(
                "window layers keep a ring per request: no full location says where, give "
                "swa_loc (window_slots(req_pool_indices, positions))"
            )
        return loc_info.swa_loc


class _Transfers(SWARingPool):
    label = "Transferable"

    @classmethod
    def fits(cls, sides: Sequence[Side], /) -> bool:
        """Can every byte of both leaves be exported by page?"""
        return all(exports_pages(side.leaf) for side in sides)

    def get_contiguous_buf_infos(self) -> BufInfos:
        """The full side, by full pages."""
        return page_infos(self.full_kv_pool)

    def get_state_buf_infos(self) -> BufInfos:
        """The window side, by request rows."""
        return self.get_request_state_buf_infos()

    def maybe_get_custom_mem_pool(self) -> object | None:
        """The memory pool of the lead leaf's buffers."""
        return cast("Transferable", self.lead).maybe_get_custom_mem_pool()


class _LayerIds(SWARingPool):
    label = "LayerIdReporting"

    @classmethod
    def fits(cls, sides: Sequence[Side], /) -> bool:
        """Is the layer of every exported region known?"""
        return all(names_layers(side) for side in sides)

    def get_kv_layer_ids(self) -> list[int]:
        """The global layer id of each region of the full side."""
        return page_layer_ids(self._sides[0])


class _Traits(SWARingPool):
    label = "DeclaresTraits"

    @classmethod
    def fits(cls, sides: Sequence[Side], /) -> bool:
        """Does every leaf say what it is?"""
        return declares_traits(sides)

    @property
    def pool_traits(self) -> PoolTraits:
        """Window layers in rings; of the storage, what the first leaf with a layer says."""
        return composite_traits(
            self._owning, "swa", swa_storage="request_ring", state_index_space="request_slot"
        )


_PARTS = (
    *WRITE_DOORS,
    PrefixDoor,
    HeadGeometry,
    LatentDoors,
    Sizes,
    _Transfers,
    _LayerIds,
    Resumes,
    _Traits,
)
"""What a pool of rings may have beyond `SWARingPool`, in the order of their names in a class.

Regions are a leaf's to declare: a page of theirs is not the ring that is exported here.
"""


def swa_ring_pool(
    *,
    full_kv_pool: KVLeaf,
    swa_kv_pool: KVLeaf,
    full_attention_layer_ids: Sequence[int],
    swa_attention_layer_ids: Sequence[int],
    swa_req_ring_size: int,
    start_layer: int | None = None,
    end_layer: int | None = None,
) -> SWARingPool:
    """Rings with exactly what their leaves allow; arguments as `SWARingPool` takes them.

    Tokens are neither moved nor copied to the host: what a full location names has no place in
    a ring.
    """
    sides = swa_sides(full_kv_pool, swa_kv_pool, full_attention_layer_ids, swa_attention_layer_ids)
    made = what_fits(SWARingPool, _PARTS, sides)
    return made(
        full_kv_pool=full_kv_pool,
        swa_kv_pool=swa_kv_pool,
        full_attention_layer_ids=full_attention_layer_ids,
        swa_attention_layer_ids=swa_attention_layer_ids,
        swa_req_ring_size=swa_req_ring_size,
        start_layer=start_layer,
        end_layer=end_layer,
    )


def _rings_of(leaf: KVLeaf, ring: int) -> int:
    if ring < 1 or ring % leaf.page_size:
        raise ValueError(
            f"swa_req_ring_size={ring}: must be a positive multiple of page_size={leaf.page_size}"
        )
    slots = leaf.size + leaf.page_size
    if slots % ring or slots < 2 * ring:
        raise ValueError(
            f"the window leaf has {slots} slots, its reserved page counted: must be whole rings "
            f"of {ring}, one of the padding row and one for each row that is lent"
        )
    return slots // ring


def _zero_rows(place: LeafLayer, count: int) -> tuple[Tensor, Tensor]:
    """Rows that the leaf's door takes, whatever its layout."""
    leaf = place.leaf
    if supports(leaf, MHARows):
        widths = (leaf.head_dim, leaf.v_head_dim)
        shapes: list[tuple[int, ...]] = [(leaf.head_num, width) for width in widths]
    elif supports(leaf, MLALatent):
        shapes = [(1, leaf.kv_lora_rank + leaf.qk_rope_head_dim), (1, leaf.kv_lora_rank)]
    else:
        shapes = [tuple(buffer.shape[1:]) for buffer in leaf.get_kv_buffer(place.layer_id)]
    dtype = leaf.dtype if leaf.dtype.itemsize > 1 else torch.bfloat16
    k, v = (torch.zeros((count, *shape), dtype=dtype, device=leaf.device) for shape in shapes)
    return k, v
