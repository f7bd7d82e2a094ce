"""Small allocators, and calls of them with plain numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from kvproto.protocols import PagedAllocator, SWAAllocator
from kvproto.reference.paged_allocator import PageAllocator
from kvproto.reference.swa_allocator import SWAPairAllocator
from kvproto.reference.token_allocator import TokenAllocator

__all__ = ["decode", "extend", "free_pages", "numbers", "paged", "pair", "slots", "tail", "token"]

COMMON: dict[str, Any] = {"dtype": torch.bfloat16, "device": "cpu", "kvcache": None}


def token(size: int, need_sort: bool = False, strict: bool = False) -> TokenAllocator:
    return TokenAllocator(size=size, need_sort=need_sort, strict=strict, **COMMON)


def paged(
    size: int, page_size: int = 4, need_sort: bool = False, strict: bool = False
) -> PageAllocator:
    return PageAllocator(
        size=size, page_size=page_size, need_sort=need_sort, strict=strict, **COMMON
    )


def pair(
    size: int, size_swa: int, page_size: int = 4, kvcache: object = None, **options: bool
) -> SWAPairAllocator:
    parts = [
        token(each, **options) if page_size == 1 else paged(each, page_size, **options)
        for each in (size, size_swa)
    ]
    return SWAPairAllocator(
        full_attn_allocator=parts[0], swa_attn_allocator=parts[1], kvcache=kvcache
    )


def slots(*numbers: int) -> Tensor:
    return torch.tensor(numbers, dtype=torch.int64)


def numbers(given: Tensor | None) -> list[int] | None:
    if given is None:
        return None
    assert given.dtype == torch.int64
    return [int(number) for number in given]


def free_pages(allocator: Any) -> list[int]:
    """Every page of the free list, as often as it is listed."""
    return sorted(int(page) for page in allocator.get_all_free_pages())


def extend(
    allocator: PagedAllocator, prefix: Sequence[int], seq: Sequence[int], last: Sequence[int]
) -> list[int] | None:
    before, after = slots(*prefix), slots(*seq)
    lens = (before, before.clone(), after, after.clone())
    return numbers(allocator.alloc_extend(*lens, slots(*last), sum(seq) - sum(prefix)))


def decode(allocator: PagedAllocator, seq: Sequence[int], last: Sequence[int]) -> list[int] | None:
    lens = slots(*seq)
    return numbers(allocator.alloc_decode(lens, lens.clone(), slots(*last)))


def tail(
    allocator: SWAAllocator, prefix: int, seq: int, swa_tail_len: int, last: int = -1
) -> list[int] | None:
    before, after = slots(prefix), slots(seq)
    lens = (before, before.clone(), after, after.clone())
    return numbers(allocator.alloc_extend_swa_tail(*lens, slots(last), seq - prefix, swa_tail_len))
