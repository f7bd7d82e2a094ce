"""What a request table with state is built from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .allocator_requests import RequestPoolRequest
from .composite_requests import StatePoolRequest

__all__ = ["StateRequestPoolRequest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRequestPoolRequest:
    """A table of `rows`, each of which comes with a slot of `state`.

    A request has `mamba_ping_pong_track_buffer_size` positions for snapshots of its state, and is
    given slots for `mamba_initial_tracking_slots` of them with its row: 0 for a table without
    extra buffers.

    :raises ValueError: for more slots than positions, or another number of positions.
    """

    rows: RequestPoolRequest
    state: StatePoolRequest
    mamba_ping_pong_track_buffer_size: Literal[1, 2] = 2
    mamba_initial_tracking_slots: Literal[0, 1, 2] = 0
    start_layer: int = 0

    def __post_init__(self) -> None:
        positions, initial = (
            self.mamba_ping_pong_track_buffer_size,
            self.mamba_initial_tracking_slots,
        )
        if positions not in (1, 2) or not 0 <= initial <= positions:
            raise ValueError(
                f"StateRequestPoolRequest.mamba_initial_tracking_slots={initial}: must be at most "
                f"mamba_ping_pong_track_buffer_size={positions}, which is 1 or 2"
            )

    @property
    def size(self) -> int:
        """Rows in use at once."""
        return self.rows.size

    @property
    def pre_alloc_size(self) -> int:
        """Rows on top, for requests that do not run yet."""
        return self.rows.pre_alloc_size

    @property
    def max_context_len(self) -> int:
        """Tokens per row."""
        return self.rows.max_context_len
