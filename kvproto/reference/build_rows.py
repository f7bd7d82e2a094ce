"""The reference request table with state for a request."""

from __future__ import annotations

from kvproto.protocols import StatePool, StateRequestPoolRequest

from .state_request_pool import StateReqToToken
from .state_slot_allocator import StateSlots

__all__ = ["rows_with_state"]


def rows_with_state(request: StateRequestPoolRequest, state: StatePool) -> StateReqToToken:
    """A table whose rows come with slots of `state`, a pool of the request's `state.size` slots."""
    rows, initial = request.rows, request.mamba_initial_tracking_slots
    positions = request.mamba_ping_pong_track_buffer_size
    return StateReqToToken(
        size=rows.size,
        max_context_len=rows.max_context_len,
        device=rows.device,
        enable_memory_saver=rows.enable_memory_saver,
        mamba_pool=state,
        mamba_allocator=StateSlots(request.state.size, rows.device),
        enable_mamba_extra_buffer=initial > 0,
        enable_mamba_extra_buffer_lazy=0 < initial < positions,
        enable_overlap_schedule=positions == 2,
        start_layer=request.start_layer,
        pre_alloc_size=rows.pre_alloc_size,
    )
