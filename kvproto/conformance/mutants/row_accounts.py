"""State slots and request tables, right but for one fault each."""

# pyright: reportIncompatibleMethodOverride=false, reportPrivateUsage=false
# These allocators are wrong on purpose, some of them below their doors.

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from torch import Tensor

from kvproto.protocols import (
    RequestPoolRequest,
    StateSlotsRequest,
)
from kvproto.reference.memory_saver import kv_cache_region
from kvproto.reference.request_pool import ReqToToken
from kvproto.reference.state_slot_allocator import StateSlots

from .account_builders import Trusting, rows, states
from .registry import mutant


@mutant(
    "memory-saver.books",
    source="fzyzcjy/torch_memory_saver#85",
    serves=StateSlotsRequest,
    build=states,
)
class KeepsBooksInTheRegion(StateSlots):
    def __init__(self, size: int, device: Any) -> None:
        with _region_if_there():
            super().__init__(size, device)


@mutant(
    "memory-saver.paused-rows",
    source="sgl-project/sglang#19029",
    serves=RequestPoolRequest,
    build=rows,
)
class ClearsItsTable(ReqToToken):
    def clear(self) -> None:
        super().clear()
        self.req_to_token.zero_()


@mutant("state-slots.exhaust", serves=StateSlotsRequest, build=states)
class LendsStateSlotZero(StateSlots):
    def alloc(self, need_size: int, /) -> Tensor | None:
        slots = super().alloc(need_size)
        return None if slots is None else slots - 1


@mutant("state-slots.all-or-nothing", serves=StateSlotsRequest, build=states)
class LosesWhatDidNotFit(StateSlots):
    def alloc(self, need_size: int, /) -> Tensor | None:
        slots = super().alloc(need_size)
        if slots is None:
            self._free.take(self._free.available())
        return slots


@mutant(
    "state-slots.double-free",
    source="LMCache/LMCache#5005",
    serves=StateSlotsRequest,
    build=states,
)
class TrustsWhoeverFreesState(StateSlots):
    def __init__(self, size: int, device: Any) -> None:
        super().__init__(size, device)
        self._free = Trusting(size, self.device)


@mutant("state-slots.group", serves=StateSlotsRequest, build=states)
class LosesAGroupLeftOpen(StateSlots):
    def alloc_group_begin(self, num_reqs: int, /) -> None:
        self._ahead = []
        super().alloc_group_begin(num_reqs)


@mutant("state-slots.caller-overwrites", serves=StateSlotsRequest, build=states)
class KeepsTheCallersStateSlots(StateSlots):
    def clear(self) -> None:
        super().clear()
        self._kept: list[Tensor] = []

    def free(self, free_index: Tensor, /) -> None:
        self._kept = [*getattr(self, "_kept", ()), free_index]

    def available_size(self) -> int:
        for free_index in getattr(self, "_kept", ()):
            super().free(free_index)
        self._kept = []
        return super().available_size()


@mutant("request.rows", serves=RequestPoolRequest, build=rows)
class LendsThePaddingRow(ReqToToken):
    def _take_all_back(self) -> None:
        super()._take_all_back()
        self._free_rows[:] = range(self.req_to_token.shape[0] - 1)


@mutant("request.empty-batch", serves=RequestPoolRequest, build=rows)
class TakesNoRowForARefusal(ReqToToken):
    def alloc(self, reqs: Any, /) -> list[int] | None:
        return super().alloc(reqs) or None


@mutant("request.write", serves=RequestPoolRequest, build=rows)
class WritesFromTheFirstToken(ReqToToken):
    def write(self, indices: Any, values: Tensor, /) -> None:
        row, places = indices
        super().write((row, slice(len(values)) if isinstance(places, slice) else places), values)


@mutant("request.generation", serves=RequestPoolRequest, build=rows)
class StartsGenerationsAgain(ReqToToken):
    def clear(self) -> None:
        super().clear()
        self.req_generation.zero_()


@mutant("request.reuse", serves=RequestPoolRequest, build=rows)
class GivesASecondRow(ReqToToken):
    def alloc(self, reqs: Sequence[Any], /) -> list[int] | None:
        for req in reqs:
            req.kv.req_pool_idx = None
        return super().alloc(reqs)


@mutant(
    "request.all-or-nothing",
    source="sgl-project/sglang#34399",
    serves=RequestPoolRequest,
    build=rows,
)
class GivesRowsWhileTheyLast(ReqToToken):
    def alloc(self, reqs: Sequence[Any], /) -> list[int] | None:
        if super().alloc(reqs) is None:
            super().alloc(reqs[: self.available_size()])
            return None
        return [req.kv.req_pool_idx for req in reqs]


def _region_if_there() -> AbstractContextManager[object]:
    """For a class that every law builds, with a stand-in for the saver in a few of them only."""
    return kv_cache_region("torch_memory_saver" in sys.modules)
