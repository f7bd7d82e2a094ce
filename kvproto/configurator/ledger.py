"""Where each byte of a budget goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kvproto.protocols import (
    HybridPoolRequest,
    NoOpLeafRequest,
    PoolRequest,
    QSAPoolRequest,
    StatePoolRequest,
    SubsystemRequest,
    SWAPoolRequest,
    SWARingPoolRequest,
    UnifiedBufferRequest,
    bytes_of_pool,
    bytes_of_state,
    bytes_per_state_slot,
)

__all__ = ["Part", "Share", "shares_of"]

Part = Literal[
    "full", "window", "draft", "state", "draft_scratch", "growth", "compressed", "unused"
]
"""Rows of full layers, of windowed ones, of the draft; state of requests; scratch of verification;
bytes of a unified buffer for whichever of these grows; a pool of compressed rows, which its builder
sizes; what is left over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The bytes of one part, reserved pages and slots included."""

    part: Part
    bytes: int


def shares_of(
    pool: PoolRequest | SWARingPoolRequest | NoOpLeafRequest | None,
    state: StatePoolRequest | None,
    draft: PoolRequest | None,
    cache_bytes: int,
    subsystem: SubsystemRequest | None = None,
) -> tuple[Share, ...]:
    """The parts that have bytes, as the requests ask for them, and what is left of the budget.

    A unified buffer's padding counts as growth, index keys of several tokens as rows.
    """
    full, window = _rows(pool)
    if isinstance(subsystem, QSAPoolRequest):
        full += subsystem.index_bytes
    slots = 0 if state is None else (state.size + 1) * bytes_per_state_slot(state)
    scratch = 0 if state is None else bytes_of_state(state) - slots
    parts: dict[Part, int] = {
        "full": full,
        "window": window,
        "draft": 0 if draft is None else bytes_of_pool(draft),
        "state": slots,
        "draft_scratch": scratch,
    }
    if isinstance(subsystem, UnifiedBufferRequest):
        parts["growth"] = subsystem.total_bytes - sum(parts.values()) + scratch
    used = tuple(Share(part=part, bytes=amount) for part, amount in parts.items() if amount)
    left = cache_bytes - sum(parts.values())
    return (*used, Share(part="unused", bytes=left))


def _rows(pool: PoolRequest | SWARingPoolRequest | NoOpLeafRequest | None) -> tuple[int, int]:
    match pool:
        case None:
            return 0, 0
        case SWARingPoolRequest(pair=pair):
            return _rows(pair)
        case SWAPoolRequest(full=full, window=window):
            return bytes_of_pool(full), bytes_of_pool(window)
        case HybridPoolRequest(full=full):
            return bytes_of_pool(full), 0
        case leaf:
            return bytes_of_pool(leaf), 0
