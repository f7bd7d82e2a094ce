"""A request table with state on the bench: which row has which state slot, and who owns it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor

from kvproto.protocols import StateRequestPool, StateRequestPoolRequest

from .row_bench import Held, RequestStub, RowsBench
from .state_bench import StateBench

__all__ = ["StateRowsBench"]


@dataclass
class _StateHeld(Held):
    """What a request with state holds, as far as pools look; further members are the pool's own."""

    mamba_pool_idx: Tensor | None = None
    mamba_ping_pong_track_buffer: Tensor | None = None

    @property
    def holds_mamba(self) -> bool:
        return self.mamba_pool_idx is not None


@dataclass
class _StateRequestStub(RequestStub):
    """One of the engine's requests of a model with state."""

    kv: Held = field(default_factory=_StateHeld)


class StateRowsBench(RowsBench):
    """Rows and state slots. `state` is a bench for the pool that has the state."""

    def __init__(self, request: Any, pool: Any, seed: int = 0) -> None:
        super().__init__(request, pool, seed)
        self.state = StateBench(self.asked.state, pool.mamba_pool, seed)
        self.looks_through(self.state)

    @classmethod
    def suits(cls, pool: object) -> bool:
        """Does it say which state slot a row has?"""
        return isinstance(pool, StateRequestPool)

    @property
    def asked(self) -> StateRequestPoolRequest:
        """The request, which is one for rows with state."""
        return cast("StateRequestPoolRequest", self.request)

    @property
    def slots(self) -> range:
        """The state slots that may be handed out."""
        return range(1, self.asked.state.size + 1)

    @property
    def each(self) -> int:
        """State slots that a request is given."""
        return 1 + self.asked.mamba_initial_tracking_slots

    def free_slots(self) -> int:
        """State slots that nobody owns."""
        return int(self.pool.mamba_allocator.available_size())

    def requests(self, count: int) -> list[Any]:
        """So many requests without a row."""
        return [_StateRequestStub() for _ in range(count)]

    def owned(self, requests: Sequence[Any]) -> list[int]:
        """The state slots of requests: what their rows say, and their snapshot slots.

        Both must agree with what the requests hold themselves.
        """
        main = self.at([r.kv.req_pool_idx for r in requests])
        told = [r.kv.mamba_pool_idx for r in requests]
        held = [None if slot is None else int(slot) for slot in told]
        self.expect("get_mamba_indices(rows), as kv.mamba_pool_idx", expected=held, got=main)
        return main + [slot for r in requests for slot in self.snapshots(r)]

    def snapshots(self, request: Any) -> list[int]:
        """The snapshot slots of a request, those it was given."""
        buffer = request.kv.mamba_ping_pong_track_buffer
        return [] if buffer is None else [int(slot) for slot in buffer if int(slot) >= 0]

    def at(self, rows: Sequence[int]) -> list[int]:
        """The state slots of rows."""
        return [int(slot) for slot in self.indices(torch.tensor(rows, dtype=torch.int64))]

    def indices(self, rows: Tensor) -> Tensor:
        """`get_mamba_indices`, of the same shape and int32."""
        got = self.pool.get_mamba_indices(rows)
        told = (torch.int32, tuple(rows.shape))
        self.expect("get_mamba_indices(rows)", expected=told, got=(got.dtype, tuple(got.shape)))
        return cast("Tensor", got)

    def expect_distinct(self, call: str, owned: Sequence[int]) -> None:
        """No slot has two owners, and all may be handed out; the others are free."""
        strangers = sorted(set(owned) - set(self.slots))
        self.expect(f"{call}; slots that are none", expected=[], got=strangers)
        twice = sorted({slot for slot in owned if owned.count(slot) > 1})
        self.expect(f"{call}; state slots of two owners", expected=[], got=twice)
        self.expect_free(call, len(self.slots) - len(owned))

    def expect_free(self, call: str, count: int) -> None:
        """So many state slots are free."""
        self.expect(
            f"{call}; mamba_allocator.available_size()", expected=count, got=self.free_slots()
        )
