"""The allocator takes sglang's calls; its scheduler's are seen in tests/interop/engine."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kvproto.adapters.sglang.leaves import SGLangMHALeaf
from kvproto.adapters.sglang.page_allocator import SGLangPageAllocator
from kvproto.protocols import CapabilityError, PagedAllocator, SWAAllocator

ROWS: dict[str, Any] = {"page_size": 4, "dtype": torch.bfloat16, "device": "cpu"}


def allocator(size: int = 34, kvcache: object = None) -> SGLangPageAllocator:
    return SGLangPageAllocator(size, **ROWS, kvcache=kvcache, need_sort=False)


def lens(*each: int) -> torch.Tensor:
    return torch.tensor(each, dtype=torch.int64)


def test_it_is_a_paged_allocator_of_one_space_in_whole_pages() -> None:
    made = allocator()
    assert isinstance(made, PagedAllocator)
    assert not isinstance(made, SWAAllocator)
    assert (made.size, made.size_full, made.available_size()) == (32, 32, 32)


def test_the_count_of_new_pages_may_be_given_as_sglang_does() -> None:
    made = allocator()
    given = made.alloc_extend(lens(0), lens(0), lens(6), lens(6), lens(-1), 6, num_new_pages=2)
    assert given is not None
    assert (len(given), made.available_size()) == (6, 24)
    made.free_page_ids(torch.unique(given // 4))
    assert made.available_size() == 32


def test_what_is_freed_on_the_full_side_is_freed() -> None:
    made = allocator()
    for free in (
        made.free_full,
        lambda slots: made.free_full_segment(slots, start_pos=0),
        lambda slots: made.free_full_segments([(slots, 0)]),
    ):
        slots = made.alloc(8)
        assert slots is not None
        free(slots)
        assert made.available_size() == 32


def test_copies_are_the_pools() -> None:
    pool = SGLangMHALeaf(32, head_num=1, head_dim=4, layer_num=1, **ROWS)
    pool.k_buffer[0][4:8] = 1
    made = allocator(kvcache=pool)
    made.load_cpu_copy(made.get_cpu_copy(torch.arange(4, 8)), torch.arange(8, 12))
    assert pool.get_key_buffer(0)[8:12].eq(1).all()
    with pytest.raises(CapabilityError, match="HostCopyable"):
        allocator().get_cpu_copy(torch.arange(4, 8))


def test_what_is_not_the_schedulers_is_absent() -> None:
    assert not hasattr(allocator(), "c128_attn_allocator")
