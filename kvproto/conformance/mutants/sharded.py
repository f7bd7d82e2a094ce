"""Allocators of pages that ranks keep in turn, right but for one fault each."""

# pyright: reportIncompatibleMethodOverride=false, reportPrivateUsage=false
# These allocators are wrong on purpose, some of them below their doors.

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kvproto.protocols import ShardedAllocatorRequest
from kvproto.reference.interleaved_allocator import InterleavedAllocator

from .registry import mutant


def over_ranks(cls: Any, request: ShardedAllocatorRequest) -> Any:
    """Pages of a group."""
    sizes = request.size_per_rank, request.page_size, request.shard_size
    return cls(*sizes, torch.int64, request.device, None, request.need_sort)


@mutant("sharded-alloc.cyclic", serves=ShardedAllocatorRequest, build=over_ranks)
class BeginsWhereItLikes(InterleavedAllocator):
    def alloc_cyclic(self, start_class: int, need_size: int) -> Tensor | None:
        return super().alloc_cyclic(0 if need_size else start_class, need_size)


@mutant("sharded-alloc.floor", serves=ShardedAllocatorRequest, build=over_ranks)
class CountsAllClassesTogether(InterleavedAllocator):
    def available_size(self) -> int:
        return sum(self.class_free_page_counts()) * self.page_size


@mutant(
    "alloc.all-or-nothing",
    source="sgl-project/sglang#34399",
    serves=ShardedAllocatorRequest,
    build=over_ranks,
)
class DrawsClassByClass(InterleavedAllocator):
    def alloc_cyclic(self, start_class: int, need_size: int) -> Tensor | None:
        slots = super().alloc_cyclic(start_class, need_size)
        if slots is None:
            self._classes[(start_class + 1) % self.shard_size].take(1)
        return slots
