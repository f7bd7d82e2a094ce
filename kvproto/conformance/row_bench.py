"""State slots and request tables on the bench."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from kvproto.protocols import (
    RequestPoolRequest,
    StateSlotsRequest,
)

from .account_bench import numbers, slots
from .bench import Bench
from .broken import LawBroken

__all__ = ["Held", "RequestStub", "RowsBench", "SlotsBench"]


class SlotsBench(Bench):
    """An allocator of state slots."""

    request: StateSlotsRequest

    def alloc(self, need_size: int) -> list[int] | None:
        """The slots, or None."""
        return numbers(f"alloc({need_size})", self.pool.alloc(need_size), need_size)

    def take(self, need_size: int) -> list[int]:
        """The slots, of which there must be as many."""
        given = self.alloc(need_size)
        if given is None:
            raise LawBroken(f"alloc({need_size})", expected=f"{need_size} slots", got="None")
        return given

    def free(self, given: Iterable[int], dtype: torch.dtype = torch.int64) -> None:
        """Free slots."""
        self.pool.free(slots(given, dtype))

    def expect_only_owned(self, call: str, owned: Sequence[int]) -> None:
        """Every other slot from 1 on can be had again, once; the last look at the accounts."""
        left = self.request.size - len(owned)
        self.expect(f"{call}; available_size()", expected=left, got=self.pool.available_size())
        expected = sorted(set(range(1, self.request.size + 1)) - set(owned))
        got = sorted(self.take(left))
        self.expect(f"{call}; taking all that is free", expected=expected, got=got)
        self.expect(f"{call}; alloc(1), all taken", expected=None, got=self.alloc(1))
        self.pool.clear()


@dataclass
class Held:
    """What a request holds, as far as pools look."""

    req_pool_idx: int | None = None
    kv_allocated_len: int = 1

    @property
    def holds_kv(self) -> bool:
        return self.req_pool_idx is not None


@dataclass
class RequestStub:
    """One of the engine's requests, as far as pools look at it."""

    kv: Held = field(default_factory=Held)

    @property
    def row(self) -> int | None:
        """Its row, None without one."""
        return self.kv.req_pool_idx


class RowsBench(Bench):
    """A table of rows, one a request."""

    request: RequestPoolRequest

    @property
    def lendable(self) -> range:
        """The rows that may be handed out."""
        return range(1, self.request.size + self.request.pre_alloc_size + 1)

    def requests(self, count: int) -> list[Any]:
        """So many requests without a row."""
        return [RequestStub() for _ in range(count)]

    def alloc(self, requests: Sequence[Any]) -> list[int]:
        """The rows of requests for which there must be enough."""
        rows = self.pool.alloc(list(requests))
        call = f"alloc({len(requests)} requests)"
        if rows is None:
            raise LawBroken(call, expected=f"{len(requests)} rows", got="None")
        self.expect(f"{call}; kv.req_pool_idx", expected=rows, got=[r.row for r in requests])
        return [int(row) for row in rows]
