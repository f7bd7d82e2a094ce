"""Sliding-window attention: a full leaf and a window leaf behind one door."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from kvproto.kernels import peer_locations
from kvproto.protocols import KVLeaf, WriteLocation

from .composite_pool import CompositePool
from .sides import LeafLayer, LeavesMisfit, Side

__all__ = ["SWAPool", "swa_sides"]

FULL, WINDOW = "full", "swa"


class SWAPool(CompositePool):
    """Full layers in one leaf, window layers in another with locations of its own.

    Callers pass locations of the full space, or an object that carries both; the pool goes from
    one to the other by the table that an allocator registered. It owns no tensor: any two
    leaves will do, their heads and widths may differ, and either may have no layer. Build it
    with `swa_pool`, which adds what the two leaves allow.

    `full_attention_layer_ids` and `swa_attention_layer_ids` are global ids, in the order of the
    leaves' layers. `start_layer` and `end_layer` (exclusive) are the stage's, just around its
    layers by default.

    :raises CapabilityError: for a part that is no leaf.
    :raises ValueError: for ids that do not fit the leaves, or leaves that disagree on page size
        or dtype.
    """

    # Declared, so that a capability check is settled on the class (see `kvproto.adopt`).
    full_kv_pool: KVLeaf
    swa_kv_pool: KVLeaf
    full_to_swa_index_mapping: Tensor | None
    layers_mapping: Mapping[int, tuple[int, bool]]
    swa_req_ring_size: int | None = None
    """No rings: window tokens take slots of the window leaf."""
    request_window: object | None = None
    """No rows of the request stand in for the window leaf."""

    def __init__(
        self,
        *,
        full_kv_pool: KVLeaf,
        swa_kv_pool: KVLeaf,
        full_attention_layer_ids: Sequence[int],
        swa_attention_layer_ids: Sequence[int],
        start_layer: int | None = None,
        end_layer: int | None = None,
    ) -> None:
        if full_kv_pool is swa_kv_pool:
            raise LeavesMisfit("full_kv_pool and swa_kv_pool are the same leaf")
        sides = swa_sides(
            full_kv_pool, swa_kv_pool, full_attention_layer_ids, swa_attention_layer_ids
        )
        super().__init__(sides, start_layer, end_layer)
        self.full_kv_pool, self.swa_kv_pool = full_kv_pool, swa_kv_pool
        self.full_to_swa_index_mapping = None
        self._peers: Tensor | None = None
        self.layers_mapping = {
            layer_id: (index, side.role == WINDOW)
            for side in sides
            for index, layer_id in enumerate(side.layer_ids)
        }

    @property
    def swa_layer_nums(self) -> int:
        """Window layers of this stage."""
        return len(self._sides[1].layer_ids)

    @property
    def size_swa(self) -> int:
        """Usable token slots of the window space."""
        return self.swa_kv_pool.size

    def register_mapping(self, full_to_swa_index_mapping: Tensor, /) -> None:
        """Translate by this table from now on; it stays the allocator's to write.

        :raises ValueError: for a table that is no row of integers, or shorter than the full space.
        """
        table, slots = full_to_swa_index_mapping, self._full_slots
        if table.dtype not in (torch.int32, torch.int64) or table.dim() != 1 or len(table) < slots:
            raise ValueError(
                f"the mapping is {table.dtype} of shape {tuple(table.shape)}, must be int32 or "
                f"int64 and hold the {slots} full locations (and one entry more)"
            )
        self.full_to_swa_index_mapping = table
        # Without the last entry, so that a location past the space is out of range here too.
        self._peers = table[:slots]

    @property
    def _full_slots(self) -> int:
        return self.full_kv_pool.size + self.full_kv_pool.page_size

    def translate_loc_from_full_to_swa(self, kv_indices: Tensor, /) -> Tensor:
        """Window locations of full ones: int64, same shape. Without a peer 0, below 0 -1.

        :raises RuntimeError: before `register_mapping`.
        :raises IndexError: on CPU, for a location past the full space.
        """
        if self._peers is None:
            raise RuntimeError(
                "no full-to-window mapping is registered: the allocator has to call "
                "register_mapping before window locations are used"
            )
        return peer_locations(self._peers, kv_indices)

    def _locations(self, place: LeafLayer, loc_info: Tensor | WriteLocation) -> Tensor:
        if isinstance(loc_info, Tensor):
            return loc_info if place.role == FULL else self.translate_loc_from_full_to_swa(loc_info)
        if place.role == WINDOW and loc_info.swa_loc is not None:
            return loc_info.swa_loc
        full = loc_info.loc if loc_info.full_loc is None else loc_info.full_loc
        return full if place.role == FULL else self.translate_loc_from_full_to_swa(full)


def swa_sides(
    full: KVLeaf, window: KVLeaf, full_ids: Sequence[int], window_ids: Sequence[int]
) -> tuple[Side, Side]:
    """The two sides, the full one first."""
    return Side(FULL, full, tuple(full_ids)), Side(WINDOW, window, tuple(window_ids))
