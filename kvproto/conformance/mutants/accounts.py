"""Allocators of one space, right but for one fault each."""

# pyright: reportIncompatibleMethodOverride=false, reportPrivateUsage=false
# These allocators are wrong on purpose, some of them below their doors.

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from kvproto.kernels.page_slots import pages_of
from kvproto.protocols import (
    AllocatorRequest,
)
from kvproto.reference.paged_allocator import PageAllocator
from kvproto.reference.token_allocator import TokenAllocator

from .account_builders import ForgetsInGroups, Trusting, alone
from .registry import mutant


@mutant("alloc.range", source="sgl-project/sglang#38519", serves=AllocatorRequest, build=alone)
class LendsTheReservedPage(PageAllocator):
    def alloc(self, need_size: int, /) -> Tensor | None:
        slots = super().alloc(need_size)
        return None if slots is None else slots - self.page_size


@mutant("alloc.disjoint", source="FlashML-org/FreeToken#204", serves=AllocatorRequest, build=alone)
class LendsWhatItKeeps(PageAllocator):
    def alloc(self, need_size: int, /) -> Tensor | None:
        slots = super().alloc(need_size)
        if slots is not None and need_size == self.page_size:
            self.free(slots)
        return slots


@mutant("alloc.exhaust", source="sgl-project/sglang#27789", serves=AllocatorRequest, build=alone)
class LosesTheLastPage(PageAllocator):
    def free(self, free_index: Tensor, /) -> None:
        super().free(free_index[: -self.page_size] if len(free_index) > 1 else free_index)


@mutant("alloc.clear", serves=AllocatorRequest, build=alone)
class ClearsInsideTheGroup(TokenAllocator):
    def clear(self) -> None:
        held: Any = self._free._group if hasattr(self, "_free") else None
        super().clear()
        self._free._group = held


@mutant(
    "alloc.all-or-nothing", source="sgl-project/sglang#34399", serves=AllocatorRequest, build=alone
)
class TakesBeforeItCounts(PageAllocator):
    def alloc_extend(self, *lens: Any, **named: Any) -> Tensor | None:
        slots = super().alloc_extend(*lens, **named)
        if slots is None:
            self._free.take(1)
        return slots


@mutant("alloc.extend-continues", serves=AllocatorRequest, build=alone)
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


@mutant("alloc.decode-continues", serves=AllocatorRequest, build=alone)
class RunsOverTheEndOfAPage(PageAllocator):
    def alloc_decode(
        self, seq_lens: Tensor, seq_lens_cpu: Tensor, last_loc: Tensor, /
    ) -> Tensor | None:
        slots = super().alloc_decode(seq_lens, seq_lens_cpu, last_loc)
        return None if slots is None else last_loc + 1


@mutant("alloc.double-free", source="LMCache/LMCache#5005", serves=AllocatorRequest, build=alone)
class TrustsWhoeverFreesTokens(TokenAllocator):
    free_list: ClassVar = Trusting


@mutant("alloc.double-free", source="LMCache/LMCache#5005", serves=AllocatorRequest, build=alone)
class TrustsWhoeverFreesPages(PageAllocator):
    free_list: ClassVar = Trusting


@mutant(
    "alloc.double-free", source="FlashML-org/FreeToken#204", serves=AllocatorRequest, build=alone
)
class ForgetsOwnersInGroups(PageAllocator):
    free_list: ClassVar = ForgetsInGroups


@mutant("alloc.same-page", source="LMCache/LMCache#5005", serves=AllocatorRequest, build=alone)
class FreesEveryTokensPage(PageAllocator):
    free_list: ClassVar = Trusting

    def free(self, free_index: Tensor, /) -> None:
        self._free.free_pages(pages_of(free_index, self.page_size))


@mutant(
    "alloc.stranger-free",
    source="lightseekorg/tokenspeed#709",
    serves=AllocatorRequest,
    build=alone,
)
class WrapsNegativeSlots(PageAllocator):
    def free(self, free_index: Tensor, /) -> None:
        super().free(free_index % (self.size + self.page_size))


@mutant("alloc.stranger-free", source="LMCache/LMCache#5005", serves=AllocatorRequest, build=alone)
class ListsStrangers(TokenAllocator):
    free_list: ClassVar = Trusting


@mutant("alloc.group", serves=AllocatorRequest, build=alone)
class FreesSegmentsAtOnce(PageAllocator):
    def free_segment(self, free_index: Tensor, /, *, start_pos: int) -> None:
        group: Any = self._free._group
        self._free._group = None
        super().free_segment(free_index, start_pos=start_pos)
        self._free._group = group


@mutant("alloc.segment", source="sgl-project/sglang#27789", serves=AllocatorRequest, build=alone)
class KeepsACutPage(PageAllocator):
    def free_segment(self, free_index: Tensor, /, *, start_pos: int) -> None:
        whole = len(free_index) // self.page_size * self.page_size
        super().free_segment(free_index[:whole], start_pos=start_pos)


@mutant("alloc.caller-overwrites", serves=AllocatorRequest, build=alone)
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


@mutant("alloc.caller-overwrites", serves=AllocatorRequest, build=alone)
class HandsOutItsOwnList(TokenAllocator):
    def alloc(self, need_size: int, /) -> Tensor | None:
        self._lent = super().alloc(need_size)
        return self._lent

    def free(self, free_index: Tensor, /) -> None:
        super().free(free_index if self._lent is None else self._lent[: len(free_index)])


@mutant(
    "alloc.index-dtypes", source="sgl-project/sglang#24743", serves=AllocatorRequest, build=alone
)
class LendsInt32(TokenAllocator):
    def alloc(self, need_size: int, /) -> Tensor | None:
        slots = super().alloc(need_size)
        return None if slots is None else slots.to(torch.int32)


@mutant("alloc.sync-free", source="sgl-project/sglang#36751", serves=AllocatorRequest, build=alone)
class FreesSegmentsAsSets(PageAllocator):
    def free_segment(self, free_index: Tensor, /, *, start_pos: int) -> None:
        super().free(free_index)


@mutant("alloc.model", source="sgl-project/sglang#31486", serves=AllocatorRequest, build=alone)
class TakesAllForOwnedAfterClear(TokenAllocator):
    def clear(self) -> None:
        super().clear()
        self._free._state[:] = 0


@mutant("alloc.whole-pages", serves=AllocatorRequest, build=alone)
class CountsFreeTokens(PageAllocator):
    def alloc_extend(self, *lens: Any, **named: Any) -> Tensor | None:
        slots = super().alloc_extend(*lens, **named)
        self._on_pages = 0 if slots is None else -len(slots) % self.page_size
        return slots

    def available_size(self) -> int:
        return super().available_size() + getattr(self, "_on_pages", 0)
