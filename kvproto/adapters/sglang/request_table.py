"""The reference request table, with what sglang's scheduler asks of every one."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import torch

from kvproto.debug import maybe_validate
from kvproto.reference import ReqToToken

__all__ = ["RowCalls", "SGLangReqToToken"]


class RowCalls(ReqToToken):
    """What sglang asks of a request table beyond the contract.

    Caches of its own, which it attaches to a table for one attention backend of CUDA's, have no
    place here: of what it asks about them the answer is that there is none.
    """

    @property
    def free_slots(self) -> list[int]:
        """The rows that can be handed out; sglang counts them."""
        return self._free_rows

    def alloc_rows(self, need_size: int) -> list[int] | None:
        """Rows without requests, or None and no change when too few are free."""
        return ReqToToken.alloc(self, [_holder(None) for _ in range(need_size)])

    def free_rows(self, indices: Iterable[int]) -> None:
        """Take back rows that `alloc_rows` gave.

        :raises ValueError: for a row that is not handed out.
        """
        for row in indices:
            ReqToToken.free(self, _holder(row))

    def schedulable_token_capacity(self, physical_capacity: int) -> int:
        """The token slots of the pool, all of them."""
        return physical_capacity

    def alloc_aux_to_lengths(self, **_lengths: torch.Tensor) -> None:
        """Nothing."""

    def reset_aux_cache_allocator(self) -> None:
        """Nothing."""


class SGLangReqToToken(RowCalls):
    """`ReqToToken` behind the constructor and the calls of sglang's request table.

    With `KVPROTO_DEBUG=1` calls are validated.

    :raises ValueError: as `ReqToToken`.
    """

    def __init__(
        self,
        size: int,
        max_context_len: int,
        device: str | torch.device,
        enable_memory_saver: bool,
    ) -> None:
        super().__init__(size, max_context_len, device, enable_memory_saver)
        maybe_validate(self)


def _holder(row: int | None) -> Any:
    return SimpleNamespace(kv=SimpleNamespace(req_pool_idx=row))
