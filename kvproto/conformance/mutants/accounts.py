"""Allocators, state slots and request tables, right but for one fault each."""

# pyright: reportIncompatibleMethodOverride=false, reportPrivateUsage=false
# These allocators are wrong on purpose, some of them below their doors.

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from kvproto.kernels.page_slots import pages_of
from kvproto.protocols import (
    AllocatorRequest,
    Declined,
    RequestPoolRequest,
    StateSlotsRequest,
    SWAAllocatorRequest,
)
from kvproto.reference.free_list import FreeList
from kvproto.reference.paged_allocator import PageAllocator
from kvproto.reference.request_pool import ReqToToken
from kvproto.reference.state_slot_allocator import StateSlots
from kvproto.reference.swa_allocator import SWAPairAllocator
from kvproto.reference.token_allocator import TokenAllocator

from .registry import mutant


class _Trusting(FreeList):
    """A list of free pages that believes whoever frees."""

    def clear(self) -> None:
        self._listed, self._held = list(range(1, self.capacity + 1)), list[int]()
        self._in_group = False

    def available(self) -> int:
        return len(self._listed)

    def take(self, n: int, *, expected: int = 0) -> Tensor | None:
        if n > len(self._listed):
            return None
        taken, self._listed = self._listed[:n], self._listed[n:]
        return torch.tensor(taken, dtype=torch.int64)

    def release(self, pages: Tensor, *, as_set: bool = False) -> None:
        (self._held if self._in_group else self._listed).extend(int(page) for page in pages)

    def begin_group(self) -> None:
        self._in_group = True

    def end_group(self) -> None:
        self._listed += self._held
        self._held, self._in_group = [], False


class _ForgetsInGroups(FreeList):
    def _claim(self, pages: Tensor) -> Tensor:
        claimed = super()._claim(pages)
        return claimed if self._group is None else pages.clamp(0, self.capacity + 1)


def _alone(cls: Any, request: AllocatorRequest) -> Any:
    """An allocator of one space, on the free list its class names."""
    kind = "token" if issubclass(cls, TokenAllocator) else "paged"
    if request.kind != kind:
        return Declined(f"{cls.__name__} is a {kind} allocator")
    sizes: dict[str, Any] = {"size": request.size}
    if kind == "paged":
        sizes["page_size"] = request.page_size
    made = cls(
        **sizes,
        dtype=torch.int64,
        device=request.device,
        kvcache=None,
        need_sort=request.need_sort,
    )
    return _on(made, getattr(cls, "free_list", FreeList))


def _on(allocator: Any, free_list: type[FreeList]) -> Any:
    old = allocator._free
    allocator._free = free_list(
        old.capacity, allocator.device, need_sort=old.need_sort, newest_first=old.newest_first
    )
    return allocator


def _paired(cls: Any, request: SWAAllocatorRequest) -> Any:
    """A pair over reference allocators, the window one on the free list that its class names."""
    kind = TokenAllocator if request.page_size == 1 else PageAllocator
    full, window = (_alone(kind, _side(request, size)) for size in (request.size, request.size_swa))
    window = _on(window, getattr(cls, "free_list", FreeList))
    return cls(full_attn_allocator=full, swa_attn_allocator=window, kvcache=None)


def _side(request: SWAAllocatorRequest, size: int) -> AllocatorRequest:
    return AllocatorRequest(
        kind="token" if request.page_size == 1 else "paged",
        size=size,
        page_size=request.page_size,
        device=request.device,
        need_sort=request.need_sort,
    )


def _states(cls: Any, request: StateSlotsRequest) -> Any:
    return cls(request.size, request.device)


def _rows(cls: Any, request: RequestPoolRequest) -> Any:
    sizes = request.size, request.max_context_len, request.device
    return cls(*sizes, enable_memory_saver=False, pre_alloc_size=request.pre_alloc_size)


@mutant("alloc.range", source="sgl-project/sglang#38519", serves=AllocatorRequest, build=_alone)
class LendsTheReservedPage(PageAllocator):
    def alloc(self, need_size: int, /) -> Tensor | None:
        slots = super().alloc(need_size)
        return None if slots is None else slots - self.page_size


@mutant("alloc.disjoint", source="FlashML-org/FreeToken#204", serves=AllocatorRequest, build=_alone)
class LendsWhatItKeeps(PageAllocator):
    def alloc(self, need_size: int, /) -> Tensor | None:
        slots = super().alloc(need_size)
        if slots is not None and need_size == self.page_size:
            self.free(slots)
        return slots


@mutant("alloc.exhaust", source="sgl-project/sglang#27789", serves=AllocatorRequest, build=_alone)
class LosesTheLastPage(PageAllocator):
    def free(self, free_index: Tensor, /) -> None:
        super().free(free_index[: -self.page_size] if len(free_index) > 1 else free_index)


@mutant("alloc.clear", serves=AllocatorRequest, build=_alone)
class ClearsInsideTheGroup(TokenAllocator):
    def clear(self) -> None:
        held = self._free._group if hasattr(self, "_free") else None
        super().clear()
        self._free._group = held


@mutant(
    "alloc.all-or-nothing", source="sgl-project/sglang#34399", serves=AllocatorRequest, build=_alone
)
class TakesBeforeItCounts(PageAllocator):
    def alloc_extend(self, *lens: Any, **named: Any) -> Tensor | None:
        slots = super().alloc_extend(*lens, **named)
        if slots is None:
            self._free.take(1)
        return slots


@mutant(
    "alloc.all-or-nothing",
    source="sgl-project/sglang#29662",
    serves=SWAAllocatorRequest,
    build=_paired,
)
class LooksAtTheFullSpaceOnly(SWAPairAllocator):
    def alloc_decode(
        self, seq_lens: Tensor, seq_lens_cpu: Tensor, last_loc: Tensor, /
    ) -> Tensor | None:
        slots = super().alloc_decode(seq_lens, seq_lens_cpu, last_loc)
        if slots is None and self.page_size > 1:
            full: Any = self.full_attn_allocator
            full.alloc_decode(seq_lens, seq_lens_cpu, last_loc)
        return slots


@mutant("alloc.extend-continues", serves=AllocatorRequest, build=_alone)
class MixesUpLastLocations(PageAllocator):
    def alloc_extend(
        self,
        prefix_lens: Tensor,
        prefix_lens_cpu: Tensor,
        seq_lens: Tensor,
        seq_lens_cpu: Tensor,
        last_loc: Tensor,
        extend_num_tokens: int,
    ) -> Tensor | None:
        lens = (prefix_lens, prefix_lens_cpu, seq_lens, seq_lens_cpu)
        return super().alloc_extend(*lens, last_loc.flip(0), extend_num_tokens)


@mutant("alloc.decode-continues", serves=AllocatorRequest, build=_alone)
class RunsOverTheEndOfAPage(PageAllocator):
    def alloc_decode(
        self, seq_lens: Tensor, seq_lens_cpu: Tensor, last_loc: Tensor, /
    ) -> Tensor | None:
        slots = super().alloc_decode(seq_lens, seq_lens_cpu, last_loc)
        return None if slots is None else last_loc + 1


@mutant("alloc.double-free", source="LMCache/LMCache#5005", serves=AllocatorRequest, build=_alone)
class TrustsWhoeverFreesTokens(TokenAllocator):
    free_list: ClassVar = _Trusting


@mutant("alloc.double-free", source="LMCache/LMCache#5005", serves=AllocatorRequest, build=_alone)
class TrustsWhoeverFreesPages(PageAllocator):
    free_list: ClassVar = _Trusting


@mutant(
    "alloc.double-free", source="FlashML-org/FreeToken#204", serves=AllocatorRequest, build=_alone
)
class ForgetsOwnersInGroups(PageAllocator):
    free_list: ClassVar = _ForgetsInGroups


@mutant("alloc.same-page", source="LMCache/LMCache#5005", serves=AllocatorRequest, build=_alone)
class FreesEveryTokensPage(PageAllocator):
    free_list: ClassVar = _Trusting

    def free(self, free_index: Tensor, /) -> None:
        self._free.release(pages_of(free_index, self.page_size))


@mutant(
    "alloc.stranger-free",
    source="lightseekorg/tokenspeed#709",
    serves=AllocatorRequest,
    build=_alone,
)
class WrapsNegativeSlots(PageAllocator):
    def free(self, free_index: Tensor, /) -> None:
        super().free(free_index % (self.size + self.page_size))


@mutant("alloc.stranger-free", source="LMCache/LMCache#5005", serves=AllocatorRequest, build=_alone)
class ListsStrangers(TokenAllocator):
    free_list: ClassVar = _Trusting


@mutant("alloc.group", serves=AllocatorRequest, build=_alone)
class FreesSegmentsAtOnce(PageAllocator):
    def free_segment(self, free_index: Tensor, /, *, start_pos: int) -> None:
        group, self._free._group = self._free._group, None
        super().free_segment(free_index, start_pos=start_pos)
        self._free._group = group


@mutant("alloc.segment", source="sgl-project/sglang#27789", serves=AllocatorRequest, build=_alone)
class KeepsACutPage(PageAllocator):
    def free_segment(self, free_index: Tensor, /, *, start_pos: int) -> None:
        whole = len(free_index) // self.page_size * self.page_size
        super().free_segment(free_index[:whole], start_pos=start_pos)


@mutant("alloc.caller-overwrites", serves=AllocatorRequest, build=_alone)
class KeepsTheCallersTensor(TokenAllocator):
    def free_group_begin(self) -> None:
        super().free_group_begin()
        self._kept: list[Tensor] = []

    def free(self, free_index: Tensor, /) -> None:
        if self._free._group is None:
            super().free(free_index)
        else:
            self._kept.append(free_index)

    def free_group_end(self) -> None:
        super().free_group_end()
        for free_index in self._kept:
            self.free(free_index)


@mutant("alloc.caller-overwrites", serves=AllocatorRequest, build=_alone)
class HandsOutItsOwnList(TokenAllocator):
    def alloc(self, need_size: int, /) -> Tensor | None:
        self._lent = super().alloc(need_size)
        return self._lent

    def free(self, free_index: Tensor, /) -> None:
        super().free(free_index if self._lent is None else self._lent[: len(free_index)])


@mutant(
    "alloc.index-dtypes", source="sgl-project/sglang#24743", serves=AllocatorRequest, build=_alone
)
class LendsInt32(TokenAllocator):
    def alloc(self, need_size: int, /) -> Tensor | None:
        slots = super().alloc(need_size)
        return None if slots is None else slots.to(torch.int32)


@mutant("alloc.sync-free", source="sgl-project/sglang#36751", serves=AllocatorRequest, build=_alone)
class FreesSegmentsAsSets(PageAllocator):
    def free_segment(self, free_index: Tensor, /, *, start_pos: int) -> None:
        super().free(free_index)


@mutant("alloc.model", source="sgl-project/sglang#31486", serves=AllocatorRequest, build=_alone)
class TakesAllForOwnedAfterClear(TokenAllocator):
    def clear(self) -> None:
        super().clear()
        self._free._state.zero_()


@mutant("swa-alloc.mapping", serves=SWAAllocatorRequest, build=_paired)
class ForgetsDecodedPeers(SWAPairAllocator):
    def alloc_decode(self, *lens: Any) -> Tensor | None:
        slots = super().alloc_decode(*lens)
        if slots is not None:
            self._mapping.unpair(slots)
        return slots


@mutant(
    "swa-alloc.tail", source="sgl-project/sglang#25805", serves=SWAAllocatorRequest, build=_paired
)
class KeepsPeersWithoutATail(SWAPairAllocator):
    def alloc_extend_swa_tail(self, *lens: Any, **named: Any) -> Tensor | None:
        before = self._mapping.table.clone()
        slots = super().alloc_extend_swa_tail(*lens, **named)
        if slots is not None and lens[-1] == 0:
            self._mapping.table.copy_(before)
        return slots


@mutant(
    "swa-alloc.page-lifetime",
    source="sgl-project/sglang#27779",
    serves=SWAAllocatorRequest,
    build=_paired,
)
class ClearsTheTokenOnly(SWAPairAllocator):
    def free_swa(self, free_index: Tensor, /) -> None:
        before = self._mapping.table.clone()
        super().free_swa(free_index)
        before[free_index] = 0
        self._mapping.table.copy_(before)


@mutant(
    "swa-alloc.segment-unmapped",
    source="sgl-project/sglang#38519",
    serves=SWAAllocatorRequest,
    build=_paired,
)
class FreesTheReservedWindowPage(SWAPairAllocator):
    free_list: ClassVar = _Trusting


@mutant(
    "swa-alloc.evict-then-free",
    source="sgl-project/sglang#27586",
    serves=SWAAllocatorRequest,
    build=_paired,
)
class FreesThroughAStaleMapping(SWAPairAllocator):
    free_list: ClassVar = _Trusting

    def free_swa(self, free_index: Tensor, /) -> None:
        before = self._mapping.table.clone()
        super().free_swa(free_index)
        self._mapping.table.copy_(before)


@mutant(
    "swa-alloc.translate",
    source="lightseekorg/tokenspeed#709",
    serves=SWAAllocatorRequest,
    build=_paired,
)
class TranslatesFromTheEnd(SWAPairAllocator):
    def translate_loc_from_full_to_swa(self, kv_indices: Tensor, /) -> Tensor:
        return self._mapping.table[:-1][kv_indices]


@mutant(
    "swa-alloc.sync-free",
    source="sgl-project/sglang#36751",
    serves=SWAAllocatorRequest,
    build=_paired,
)
class FiltersUnmappedSlots(SWAPairAllocator):
    def free_swa_segment(self, free_index: Tensor, /, *, start_pos: int) -> None:
        super().free_swa(free_index)


@mutant("swa-alloc.model", serves=SWAAllocatorRequest, build=_paired)
class ContinuesOnTheReservedPage(SWAPairAllocator):
    def alloc_decode(self, *lens: Any) -> Tensor | None:
        slots = super().alloc_decode(*lens)
        if slots is not None:
            orphans = slots[self._mapping.translate(slots) == 0]
            self._mapping.table[orphans] = orphans % self.page_size
        return slots


@mutant("state-slots.exhaust", serves=StateSlotsRequest, build=_states)
class LendsStateSlotZero(StateSlots):
    def alloc(self, need_size: int, /) -> Tensor | None:
        slots = super().alloc(need_size)
        return None if slots is None else slots - 1


@mutant("state-slots.all-or-nothing", serves=StateSlotsRequest, build=_states)
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
    build=_states,
)
class TrustsWhoeverFreesState(StateSlots):
    def __init__(self, size: int, device: Any) -> None:
        super().__init__(size, device)
        self._free = _Trusting(size, self.device)


@mutant("state-slots.group", serves=StateSlotsRequest, build=_states)
class LosesAGroupLeftOpen(StateSlots):
    def alloc_group_begin(self, num_reqs: int, /) -> None:
        self._ahead = []
        super().alloc_group_begin(num_reqs)


@mutant("state-slots.caller-overwrites", serves=StateSlotsRequest, build=_states)
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


@mutant("request.rows", serves=RequestPoolRequest, build=_rows)
class LendsThePaddingRow(ReqToToken):
    def clear(self) -> None:
        super().clear()
        self._free_rows = list(range(self.req_to_token.shape[0] - 1))


@mutant("request.write", serves=RequestPoolRequest, build=_rows)
class WritesFromTheFirstToken(ReqToToken):
    def write(self, indices: Any, values: Tensor, /) -> None:
        row, places = indices
        super().write((row, slice(len(values)) if isinstance(places, slice) else places), values)


@mutant("request.generation", serves=RequestPoolRequest, build=_rows)
class StartsGenerationsAgain(ReqToToken):
    def clear(self) -> None:
        super().clear()
        self.req_generation.zero_()


@mutant("request.reuse", serves=RequestPoolRequest, build=_rows)
class GivesASecondRow(ReqToToken):
    def alloc(self, reqs: Sequence[Any], /) -> list[int] | None:
        for req in reqs:
            req.kv.req_pool_idx = None
        return super().alloc(reqs)


@mutant(
    "request.all-or-nothing",
    source="sgl-project/sglang#34399",
    serves=RequestPoolRequest,
    build=_rows,
)
class GivesRowsWhileTheyLast(ReqToToken):
    def alloc(self, reqs: Sequence[Any], /) -> list[int] | None:
        if super().alloc(reqs) is None:
            super().alloc(reqs[: self.available_size()])
            return None
        return [req.kv.req_pool_idx for req in reqs]
