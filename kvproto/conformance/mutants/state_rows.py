"""Request tables with state, right but for one fault each."""

# pyright: reportIncompatibleMethodOverride=false, reportPrivateUsage=false
# These tables are wrong on purpose, some of them below their doors.

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from kvproto.protocols import StateRequestPoolRequest
from kvproto.reference.request_pool import ReqToToken
from kvproto.reference.state import RecurrentStatePool
from kvproto.reference.state_request_pool import StateReqToToken
from kvproto.reference.state_slot_allocator import StateSlots

from .registry import mutant


def rows_with_state(cls: Any, request: StateRequestPoolRequest) -> Any:
    """A table over a reference state pool."""
    rows, initial = request.rows, request.mamba_initial_tracking_slots
    return cls(
        size=rows.size,
        max_context_len=rows.max_context_len,
        device=rows.device,
        enable_memory_saver=False,
        mamba_pool=RecurrentStatePool(**request.state.keywords()),
        mamba_allocator=StateSlots(request.state.size, rows.device),
        enable_mamba_extra_buffer=initial > 0,
        enable_mamba_extra_buffer_lazy=0 < initial < request.mamba_ping_pong_track_buffer_size,
        enable_overlap_schedule=request.mamba_ping_pong_track_buffer_size == 2,
        pre_alloc_size=rows.pre_alloc_size,
    )


@mutant("state-rows.slots", serves=StateRequestPoolRequest, build=rows_with_state)
class ForgetsToEnterTheSlot(StateReqToToken):
    def _enter(self, rows: list[int], each: list[Any]) -> None:
        super()._enter(rows[1:], each[1:]) if rows[1:] else None


@mutant(
    "state-rows.all-or-nothing",
    source="sgl-project/sglang#34399",
    serves=StateRequestPoolRequest,
    build=rows_with_state,
)
class TakesRowsBeforeSlots(StateReqToToken):
    def alloc(self, reqs: Sequence[Any], /) -> list[int] | None:
        if ReqToToken.alloc(self, reqs) is None:
            return None
        return super().alloc(reqs)


@mutant("state-rows.outlives", serves=StateRequestPoolRequest, build=rows_with_state)
class FreesStateWithTheRow(StateReqToToken):
    def free(self, req: Any, /) -> None:
        if req.kv.mamba_pool_idx is not None:
            self.mamba_allocator.free(req.kv.mamba_pool_idx.view(1))
        super().free(req)


@mutant("state-rows.keeps", serves=StateRequestPoolRequest, build=rows_with_state)
class GivesASecondSlot(StateReqToToken):
    def alloc(self, reqs: Sequence[Any], /) -> list[int] | None:
        for req in reqs:
            if req.kv.req_pool_idx is None:
                req.kv.mamba_pool_idx = None
        return super().alloc(reqs)


@mutant("state-rows.snapshot", serves=StateRequestPoolRequest, build=rows_with_state)
class FreesTheKeptSnapshot(StateReqToToken):
    def free_mamba_cache(
        self, req: Any, /, mamba_ping_pong_track_buffer_to_keep: int | None = None
    ) -> None:
        if mamba_ping_pong_track_buffer_to_keep in (0, 1):
            mamba_ping_pong_track_buffer_to_keep = None
        super().free_mamba_cache(req, mamba_ping_pong_track_buffer_to_keep)


@mutant("state-rows.snapshot", serves=StateRequestPoolRequest, build=rows_with_state)
class FreesTheStateBeforeItLooks(StateReqToToken):
    def free_mamba_cache(
        self, req: Any, /, mamba_ping_pong_track_buffer_to_keep: int | None = None
    ) -> None:
        if mamba_ping_pong_track_buffer_to_keep not in (None, 0, 1):
            self.mamba_allocator.free(req.kv.mamba_pool_idx.view(1))
            req.kv.mamba_pool_idx = None
        super().free_mamba_cache(req, mamba_ping_pong_track_buffer_to_keep)


@mutant("state-rows.clear", serves=StateRequestPoolRequest, build=rows_with_state)
class ClearsRowsOnly(StateReqToToken):
    def clear(self) -> None:
        ReqToToken.clear(self)


@mutant("state-rows.layers", serves=StateRequestPoolRequest, build=rows_with_state)
class ReadsTheFirstLayer(StateReqToToken):
    def mamba2_layer_cache(self, layer_id: int, /) -> Any:
        return self.mamba_pool.mamba2_layer_cache(0)


@mutant("state-rows.fork", serves=StateRequestPoolRequest, build=rows_with_state)
class TranslatesEverySlotToOne(StateReqToToken):
    def translate_mamba_indices(self, mamba_indices: Tensor, /) -> Tensor:
        return torch.ones_like(mamba_indices)


@mutant("state-rows.model", serves=StateRequestPoolRequest, build=rows_with_state)
class FreesSlotsOfRowsLentTwice(StateReqToToken):
    """Only what plays long enough sees it."""

    def alloc(self, reqs: Sequence[Any], /) -> list[int] | None:
        before = {id(req): req.kv.req_pool_idx for req in reqs}
        rows = super().alloc(reqs)
        for row, req in zip(rows or (), reqs, strict=False):
            if before[id(req)] is None and int(self.req_generation[row]) > 1:
                self.mamba_allocator.free(req.kv.mamba_pool_idx.view(1))
        return rows
