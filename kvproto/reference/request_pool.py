"""Rows of token slots, one per request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .memory_saver import kv_cache_region

__all__ = ["ReqToToken"]


class ReqToToken:
    """Rows `1 .. size + pre_alloc_size` of token slots; row 0 is padding and is never lent.

    The constructor takes the keywords in use today. `pre_alloc_size` rows on top of `size` are
    for requests whose pages are filled by a peer before they run (decode instances). The row
    freed last is lent first.

    :raises ValueError: for sizes that no table can have.
    """

    # Declared, so that a capability check is settled on the class (see `kvproto.adopt`).
    size: int
    pre_alloc_size: int
    max_context_len: int
    device: torch.device
    req_to_token: Tensor
    req_generation: Tensor

    def __init__(
        self,
        size: int,
        max_context_len: int,
        device: str | torch.device,
        enable_memory_saver: bool,
        pre_alloc_size: int = 0,
    ) -> None:
        for name, number, least in (
            ("size", size, 1),
            ("max_context_len", max_context_len, 1),
            ("pre_alloc_size", pre_alloc_size, 0),
        ):
            if number < least:
                raise ValueError(f"{name}={number}: must be at least {least}")
        self.size, self.pre_alloc_size = size, pre_alloc_size
        self.max_context_len, self.device = max_context_len, torch.device(device)
        rows = size + pre_alloc_size + 1
        with kv_cache_region(enable_memory_saver):
            self.req_to_token = torch.zeros(
                (rows, max_context_len), dtype=torch.int32, device=self.device
            )
        self.req_generation = torch.zeros(rows, dtype=torch.int64, device="cpu")
        self._free_rows: list[int] = []
        self._held: set[int] = set()
        self._take_all_back()

    def write(self, indices: Any, values: Tensor, /) -> None:
        """Set entries, as in `req_to_token[indices] = values`; of any integer dtype."""
        self.req_to_token[indices] = values.to(self.req_to_token.dtype)

    def available_size(self) -> int:
        """Rows that can be handed out."""
        return len(self._free_rows)

    def alloc(self, reqs: Sequence[Any], /) -> list[int] | None:
        """The row of each request; one that has a row keeps it, with its entries.

        None, with nothing changed, when too few rows are free. Sets `kv.req_pool_idx`.
        """
        waiting = {id(req): req for req in reqs if req.kv.req_pool_idx is None}
        if len(waiting) > len(self._free_rows):
            return None
        first = len(self._free_rows) - len(waiting)
        rows, self._free_rows[first:] = self._free_rows[first:], []
        self._held.update(rows)
        self.req_generation[rows] += 1
        for req, row in zip(waiting.values(), rows, strict=True):
            req.kv.req_pool_idx = row
        return [req.kv.req_pool_idx for req in reqs]

    def free(self, req: Any, /) -> None:
        """Take the request's row back and clear `kv.req_pool_idx`.

        :raises ValueError: when it has no row of this pool that is handed out.
        """
        row = req.kv.req_pool_idx
        if row not in self._held:
            raise ValueError(f"row {row} is not handed out: freed before, or of another pool")
        self._held.remove(row)
        self._free_rows.append(row)
        req.kv.req_pool_idx = None

    def clear(self) -> None:
        """Take all rows back; generations go on, and the table is not touched."""
        self._take_all_back()

    def _take_all_back(self) -> None:
        """In place: pools that share their rows see it."""
        self._free_rows[:] = range(1, self.req_to_token.shape[0])
        self._held.clear()
