"""Rows of token slots, each with a slot of recurrent state."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import Tensor

from kvproto.kernels.table_entries import set_entries
from kvproto.protocols import LayerTransferCounter, StatePool, StateSlotAllocator, require

from .request_pool import ReqToToken
from .snapshot_slots import SnapshotSlots

__all__ = ["StateReqToToken"]


class StateReqToToken(ReqToToken):
    """A request table whose rows come with state slots, over a state pool of whoever made it.

    The pool and the allocator of its slots are injected; the other keywords are those in use
    today. With `enable_mamba_extra_buffer` a request has snapshot slots too: two, or one without
    `enable_overlap_schedule`; `enable_mamba_extra_buffer_lazy` gives it the first of them only.
    `pre_alloc_size` rows are for requests that do not run yet: with state slots like all others.

    :raises ValueError: for sizes no table can have, or more slots to lend than the pool has.
    :raises CapabilityError: for parts that are no state pool and no allocator of state slots.
    """

    # Declared, so that a capability check is settled on the class (see `kvproto.adopt`).
    mamba_pool: StatePool
    mamba_allocator: StateSlotAllocator
    mamba_ckpt_pool: object | None = None
    enable_mamba_extra_buffer: bool
    enable_mamba_extra_buffer_lazy: bool
    start_layer: int
    req_index_to_mamba_index_mapping: Tensor

    def __init__(
        self,
        *,
        size: int,
        max_context_len: int,
        device: str | torch.device,
        enable_memory_saver: bool,
        mamba_pool: StatePool,
        mamba_allocator: StateSlotAllocator,
        enable_mamba_extra_buffer: bool,
        enable_mamba_extra_buffer_lazy: bool = False,
        enable_overlap_schedule: bool = True,
        start_layer: int | None = None,
        pre_alloc_size: int = 0,
    ) -> None:
        require(mamba_allocator, StateSlotAllocator, for_="a request table with state")
        super().__init__(size, max_context_len, device, enable_memory_saver, pre_alloc_size)
        self.mamba_allocator = mamba_allocator
        self._use(mamba_pool)
        self.start_layer = 0 if start_layer is None else start_layer
        self.enable_mamba_extra_buffer = enable_mamba_extra_buffer
        self.enable_mamba_extra_buffer_lazy = enable_mamba_extra_buffer_lazy
        rows = self.req_to_token.shape[0]
        self.req_index_to_mamba_index_mapping = torch.zeros(
            rows, dtype=torch.int32, device=self.device
        )
        positions = 2 if enable_overlap_schedule else 1
        initial = 1 if enable_mamba_extra_buffer_lazy else positions
        self._snapshots = (
            SnapshotSlots(rows, positions, initial, self.device)
            if enable_mamba_extra_buffer
            else None
        )
        self.mamba_ping_pong_track_buffer_size = positions

    def _use(self, mamba_pool: StatePool) -> None:
        require(mamba_pool, StatePool, for_="a request table with state")
        if self.mamba_allocator.size > mamba_pool.size:
            raise ValueError(
                f"mamba_allocator.size={self.mamba_allocator.size}: the state pool has "
                f"{mamba_pool.size} slots, fewer than would be lent"
            )
        self.mamba_pool = mamba_pool
        self.mamba_map = {layer_id: at for at, layer_id in enumerate(mamba_pool.mamba_layer_ids)}
        self._counter: LayerTransferCounter | None = None

    @property
    def mamba_initial_tracking_slots(self) -> int:
        """Snapshot slots that a request is given with its row."""
        return 0 if self._snapshots is None else self._snapshots.initial

    @property
    def req_index_to_mamba_ping_pong_track_buffer_mapping(self) -> Tensor | None:
        """int64 `[rows, positions]`: snapshot slots of rows, or None without extra buffers."""
        return None if self._snapshots is None else self._snapshots.table

    def alloc(self, reqs: Sequence[Any], /) -> list[int] | None:
        """The row of each request, each with its state slots; what a request has, it keeps.

        None, with nothing changed, when rows or state slots are too few. Sets `kv.req_pool_idx`,
        `kv.mamba_pool_idx`, and `kv.mamba_needs_clear` where the state slot is new.
        """
        each = {id(req): req.kv for req in reqs}.values()
        if sum(kv.req_pool_idx is None for kv in each) > self.available_size():
            return None
        need = sum(map(self._slots_needed, each))
        slots = self.mamba_allocator.alloc(need) if need else None
        if need and slots is None:
            return None
        rows = super().alloc(reqs)
        if slots is not None:
            self._give(each, list(slots.unbind()))
        if rows:
            self._enter(rows, [req.kv for req in reqs])
        return rows

    def _slots_needed(self, kv: Any) -> int:
        untracked = self._snapshots is not None and kv.mamba_ping_pong_track_buffer is None
        return (kv.mamba_pool_idx is None) + untracked * self.mamba_initial_tracking_slots

    def _give(self, each: Any, slots: list[Tensor]) -> None:
        slots.reverse()
        for kv in each:
            if kv.mamba_pool_idx is None:
                kv.mamba_pool_idx, kv.mamba_needs_clear = slots.pop(), True
            if self._snapshots is not None and kv.mamba_ping_pong_track_buffer is None:
                self._snapshots.give(kv, [slots.pop() for _ in range(self._snapshots.initial)])

    def _enter(self, rows: list[int], each: list[Any]) -> None:
        where = torch.tensor(rows, device="cpu", pin_memory=self.device.type == "cuda")
        where = where.to(self.device, non_blocking=True)
        mapping = self.req_index_to_mamba_index_mapping
        held = torch.stack([kv.mamba_pool_idx for kv in each])
        set_entries(mapping, where, held)
        if self._snapshots is not None:
            buffers = torch.stack([kv.mamba_ping_pong_track_buffer for kv in each])
            set_entries(self._snapshots.table, where, buffers)

    def free_mamba_cache(
        self, req: Any, /, mamba_ping_pong_track_buffer_to_keep: int | None = None
    ) -> None:
        """Free the state slots of a request, except the snapshot slot at this position.

        Its row, where it has one, is at slot 0 from now on.

        :raises ValueError: when it has none, or for a position that there is not; none is freed.
        """
        kv, keep = req.kv, mamba_ping_pong_track_buffer_to_keep
        if kv.mamba_pool_idx is None:
            raise ValueError("the request has no state slot: freed before, or never given one")
        if self._snapshots is None and keep is not None:
            raise ValueError(
                f"mamba_ping_pong_track_buffer_to_keep={keep}: there are no extra buffers"
            )
        further = [] if self._snapshots is None else self._snapshots.held(kv, keep)
        self.mamba_allocator.free(torch.cat((kv.mamba_pool_idx.view(1), *further)))
        kv.mamba_pool_idx = None
        if self._snapshots is not None:
            self._snapshots.take_away(kv)
        if kv.req_pool_idx is not None:
            self.req_index_to_mamba_index_mapping[kv.req_pool_idx].zero_()
            if self._snapshots is not None:
                self._snapshots.table[kv.req_pool_idx].zero_()

    def clear(self) -> None:
        """Take all rows and all state slots back; generations go on."""
        super().clear()
        self.mamba_allocator.clear()
        self.req_index_to_mamba_index_mapping.zero_()
        if self._snapshots is not None:
            self._snapshots.table.zero_()

    def get_mamba_indices(self, req_indices: Tensor, /) -> Tensor:
        """State slots of rows, int32, same shape; 0 for row 0, and after `free_mamba_cache`."""
        return self.req_index_to_mamba_index_mapping[req_indices]

    def translate_mamba_indices(self, mamba_indices: Tensor, /) -> Tensor:
        """The same tensor: slots are physical."""
        return mamba_indices

    def mamba2_layer_cache(self, layer_id: int, /) -> Any:
        """The state of a layer by its global id, once it is loaded; aliases.

        :raises ValueError: for a layer that keeps no state, naming those that do.
        """
        if layer_id not in self.mamba_map:
            raise ValueError(
                f"layer_id={layer_id} keeps no state here; {list(self.mamba_map)} do, by global id"
            )
        self._wait_for(layer_id)
        return self.mamba_pool.mamba2_layer_cache(self.mamba_map[layer_id])

    def register_layer_transfer_counter(
        self, layer_transfer_counter: LayerTransferCounter, /
    ) -> None:
        """State is read and copied once the counter says that its layer is loaded."""
        self._counter = layer_transfer_counter

    def _wait_for(self, layer_id: int) -> None:
        if self._counter is not None:
            self._counter.wait_until(layer_id - self.start_layer)

    def copy_mamba_state(self, src_index: Tensor, dst_index: Tensor, /) -> None:
        """`StatePool.copy_from`, once every layer is loaded: how a request forks from a prefix."""
        if src_index.shape[0] and self.mamba_map:
            self._wait_for(max(self.mamba_map))
            self.mamba_pool.copy_from(src_index, dst_index)

    def clone_with_new_mamba(self, *, mamba_pool: StatePool) -> Self:
        """The same rows and state slots, over another pool: a draft model's state.

        Whoever of the two allocates or frees does it for both.

        :raises ValueError: for a pool of fewer slots than are lent.
        :raises CapabilityError: for what is no state pool.
        """
        clone = copy.copy(self)
        clone._use(mamba_pool)
        return clone

    def get_mamba_ping_pong_other_idx(self, mamba_next_track_idx: int, /) -> int:
        """The other position of two, the same of one."""
        two = self.mamba_ping_pong_track_buffer_size == 2
        return 1 - mamba_next_track_idx if two else mamba_next_track_idx

    def get_mamba_ping_pong_keep_idx(self, req: Any, /) -> int:
        """The position that was written last."""
        return int(req.kv.mamba_last_track_idx)

    def set_mamba_ping_pong_slot(self, req: Any, idx: int, value: Tensor | int, /) -> None:
        """Put a slot, of no dimension, at a position; -1 for none. Nothing is freed.

        :raises ValueError: without extra buffers, or for a number that is not -1.
        """
        if isinstance(value, int) and value != -1:
            raise ValueError(f"value={value}: give a slot as a tensor, or -1 for none")
        slot = None if isinstance(value, int) else value
        self._extra_buffers().set(req.kv, idx, slot)

    def donate_mamba_ping_pong_slot(self, req: Any, new_slot: Tensor, /) -> Tensor:
        """`[1]`: the slot written last, whose place `new_slot`, `[1]`, takes; it is the caller's.

        :raises ValueError: without extra buffers, or when nothing is there to donate.
        """
        at = self.get_mamba_ping_pong_keep_idx(req)
        if self._extra_buffers() and req.kv.mamba_ping_pong_empty[at]:
            raise ValueError(f"position {at} of the request has no snapshot slot to donate")
        donated: Tensor = req.kv.mamba_ping_pong_track_buffer[at : at + 1].clone()
        self.set_mamba_ping_pong_slot(req, at, new_slot[0])
        return donated

    def _extra_buffers(self) -> SnapshotSlots:
        if self._snapshots is None:
            raise ValueError("there are no extra buffers: enable_mamba_extra_buffer is off")
        return self._snapshots
