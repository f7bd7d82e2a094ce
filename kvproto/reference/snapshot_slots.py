"""Further state slots of a request, which snapshots of its state are written to in turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

__all__ = ["SnapshotSlots"]


class SnapshotSlots:
    """`positions` snapshot slots a request, of which it is given the first `initial` with its row.

    They are in the request's `kv.mamba_ping_pong_track_buffer`, int64 `[positions]`, -1 where one
    comes later, and in `table`, int64 `[rows, positions]`, for kernels. `kv.mamba_ping_pong_empty`
    says the same without looking at the device.
    """

    def __init__(self, rows: int, positions: int, initial: int, device: torch.device) -> None:
        self.positions, self.initial = positions, initial
        self.table = torch.zeros((rows, positions), dtype=torch.int64, device=device)

    def other(self, position: int) -> int:
        """The position after this one, where there are two."""
        return 1 - position if self.positions == 2 else position

    def give(self, kv: Any, slots: Sequence[Tensor]) -> None:
        """Let a request start with these slots, `initial` of them."""
        buffer = slots[0].new_full((self.positions,), -1)
        buffer[: self.initial] = torch.stack(tuple(slots))
        kv.mamba_ping_pong_track_buffer = buffer
        kv.mamba_ping_pong_empty = [position >= self.initial for position in range(self.positions)]
        kv.mamba_prev_track_seqlen = None
        kv.mamba_next_track_idx = 0
        kv.mamba_last_track_idx = 0 if self.initial < self.positions else self.other(0)

    def held(self, kv: Any, keep: int | None) -> list[Tensor]:
        """The request's snapshot slots, `[1]` each, but for the one at `keep`.

        :raises ValueError: for a position that there is not.
        """
        if keep is not None and not 0 <= keep < self.positions:
            raise ValueError(
                f"mamba_ping_pong_track_buffer_to_keep={keep}: a request has the positions "
                f"{list(range(self.positions))}; nothing was freed"
            )
        buffer, empty = kv.mamba_ping_pong_track_buffer, kv.mamba_ping_pong_empty
        places = range(self.positions)
        return [buffer[at : at + 1] for at in places if at != keep and not empty[at]]

    def take_away(self, kv: Any) -> None:
        """Leave a request without any; who owns the slots was settled before."""
        kv.mamba_ping_pong_track_buffer = kv.mamba_ping_pong_empty = None
        kv.mamba_next_track_idx = kv.mamba_last_track_idx = None
        kv.mamba_last_track_seqlen = kv.mamba_prev_track_seqlen = None
        kv.mamba_cow_src_index = None
        kv.mamba_needs_clear = False

    def set(self, kv: Any, position: int, slot: Tensor | None) -> None:
        """Put a slot, of no dimension, at a position of a request that has a row; None for none."""
        place = kv.mamba_ping_pong_track_buffer[position]
        place.fill_(-1) if slot is None else place.copy_(slot)
        self.table[kv.req_pool_idx] = kv.mamba_ping_pong_track_buffer
        kv.mamba_ping_pong_empty[position] = slot is None
