"""One byte buffer from which slots of every kind are lent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .composite_requests import HybridPoolRequest, SWAPoolRequest
from .request_bytes import bytes_per_state_slot, bytes_per_token

if TYPE_CHECKING:
    from .allocator_requests import RequestPoolRequest, SWAAllocatorRequest
    from .composite_requests import PoolRequest, StatePoolRequest
    from .platform import Subsystem
    from .requests import AllocatorRequest, LeafRequest
    from .state_requests import StateRequestPoolRequest

__all__ = ["UnifiedBufferRequest", "unified_entry_bytes"]

_ENTRY_ALIGNMENT = 32
_PART_ALIGNMENT = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class UnifiedBufferRequest:
    """Pools, allocator and request table over one buffer of `total_bytes`.

    `pool` says what a slot of each kind holds, and by its sizes how many of each there are at
    first: a kind may take bytes that no other has lent. `state` is recurrent state beside a window
    pair; that of a hybrid is in `pool`. The scratch of draft tokens is not in the buffer.
    `allocator` and `request_pool` say what is asked of those; the ids that are lent may run past
    the sizes.

    `draft` are rows of layers that predict ahead, which lie in the entries of the model's own
    slots: rows of its full layers with a full slot, and those of its windowed layers with a
    window slot where `draft_windows_shared`, with the full slot else.

    :raises ValueError: for a buffer that does not hold what there is at first, and for windows in
        slots that there are none of.
    """

    total_bytes: int
    pool: SWAPoolRequest | HybridPoolRequest
    state: StatePoolRequest | None
    allocator: AllocatorRequest | SWAAllocatorRequest
    request_pool: RequestPoolRequest | StateRequestPoolRequest
    draft: PoolRequest | None = None
    draft_windows_shared: bool = False

    def __post_init__(self) -> None:
        if self.draft_windows_shared and not (
            isinstance(self.pool, SWAPoolRequest) and isinstance(self.draft, SWAPoolRequest)
        ):
            raise ValueError(
                "UnifiedBufferRequest.draft_windows_shared=True: the model and its draft both need "
                "windowed layers"
            )
        if self.total_bytes < self.boot_bytes:
            raise ValueError(
                f"UnifiedBufferRequest.total_bytes={self.total_bytes}: the slots that there are at "
                f"first take {self.boot_bytes}"
            )

    @property
    def subsystems(self) -> frozenset[Subsystem]:
        """What a platform has to offer for it."""
        return frozenset(("unified_buffer",) if self.draft is None else _WITH_DRAFT)

    @property
    def page_size(self) -> int:
        """Tokens of a page of either kind."""
        return self.pool.full.page_size

    @property
    def full_entry_bytes(self) -> int:
        """Bytes of a full slot: the rows of the model, those of the draft, and padding."""
        full, window = _leaves(self.draft)
        rows = (full,) if self.draft_windows_shared else (full, window)
        return unified_entry_bytes(self.pool.full, *rows)

    @property
    def window_entry_bytes(self) -> int:
        """Bytes of a window slot, as `full_entry_bytes`; 0 where no layer is windowed."""
        if not isinstance(self.pool, SWAPoolRequest):
            return 0
        window = _leaves(self.draft)[1] if self.draft_windows_shared else None
        return unified_entry_bytes(self.pool.window, window)

    @property
    def boot_bytes(self) -> int:
        """Bytes of the slots that there are at first, reserved ones included."""
        pool, window, state = self.pool, 0, self.state
        full = (pool.full.size + pool.full.page_size) * self.full_entry_bytes
        match pool:
            case SWAPoolRequest():
                slots = pool.window.size + pool.window.page_size
                window = slots * self.window_entry_bytes
            case HybridPoolRequest():
                state = pool.state
        slot = 0 if state is None else (state.size + 1) * bytes_per_state_slot(state)
        return full + window + slot


_WITH_DRAFT: tuple[Subsystem, ...] = ("unified_buffer", "fused_draft")


def unified_entry_bytes(host: LeafRequest, *drafts: LeafRequest | None) -> int:
    """Bytes of a slot in a unified buffer: rows of the model, then of drafts, each part at a
    multiple of 16 bytes and the whole padded to one of 32."""
    entry = bytes_per_token(host)
    for draft in drafts:
        if draft is not None and draft.layer_num:
            entry = -(-entry // _PART_ALIGNMENT) * _PART_ALIGNMENT + bytes_per_token(draft)
    return -(-entry // _ENTRY_ALIGNMENT) * _ENTRY_ALIGNMENT


def _leaves(draft: PoolRequest | None) -> tuple[LeafRequest | None, LeafRequest | None]:
    match draft:
        case None:
            return None, None
        case SWAPoolRequest(full=full, window=window):
            return full, window
        case HybridPoolRequest(full=full) | full:
            return full, None
