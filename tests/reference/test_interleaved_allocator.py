"""Pages that the ranks of a group keep in turn."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kvproto.protocols import (
    PagedAllocator,
    ShardedAllocator,
    ShardedAllocatorRequest,
    explain,
)
from kvproto.reference import InterleavedAllocator
from kvproto.reference.build_allocator import build_reference_allocator
from tests.reference.allocators import free_pages, numbers, slots
from tests.reference.sync_free import SyncFree


def ranks(size: int = 6, page_size: int = 2, shard_size: int = 2, **options: Any) -> Any:
    """Three pages of two slots on each of two ranks; pages 0 and 1 are reserved."""
    return InterleavedAllocator(
        size=size,
        physical_page_size=page_size,
        shard_size=shard_size,
        dtype=torch.bfloat16,
        device="cpu",
        kvcache=None,
        need_sort=options.pop("need_sort", False),
        **options,
    )


def test_is_one_by_declaration_and_continues_nothing() -> None:
    assert (
        explain(InterleavedAllocator, ShardedAllocator) == explain(ranks(), ShardedAllocator) == []
    )
    assert not isinstance(ranks(), PagedAllocator)


def test_pages_go_round_from_the_class_asked_for() -> None:
    allocator = ranks()
    assert (allocator.size, allocator.available_size()) == (12, 12)
    assert numbers(allocator.alloc_cyclic(1, 6)) == [6, 7, 4, 5, 10, 11]
    assert allocator.class_free_page_counts() == [2, 1]
    assert allocator.available_size() == 4
    # The even class has more pages left, so a chain that does not say begins there.
    assert numbers(allocator.alloc(2)) == [8, 9]
    assert numbers(allocator.alloc_cyclic(-1, 2)) == [14, 15]
    assert (allocator.class_free_page_counts(), allocator.available_size()) == ([1, 0], 0)


def test_a_class_that_is_short_changes_nothing() -> None:
    allocator = ranks()
    allocator.alloc_cyclic(1, 6)
    assert allocator.alloc_cyclic(1, 6) is None
    assert free_pages(allocator) == [4, 6, 7]
    assert numbers(allocator.alloc_cyclic(0, 6)) == [8, 9, 14, 15, 12, 13]


def test_a_page_comes_back_to_its_class_once() -> None:
    allocator = ranks()
    row = allocator.alloc_cyclic(0, 8)
    allocator.free(row[torch.tensor([5, 1, 0])])
    allocator.free(row[:2])
    allocator.free(slots(0, 3, -1, 16, 99))
    assert free_pages(allocator) == [2, 4, 6, 7]
    with SyncFree():  # type: ignore[no-untyped-call]
        allocator.free_segment(row[:7], start_pos=0)
    assert free_pages(allocator) == [2, 3, 4, 5, 6, 7]


def test_strict_refuses_strangers_and_frees_nothing_with_them() -> None:
    allocator = ranks(strict=True)
    row = allocator.alloc_cyclic(0, 6)
    allocator.free(row[:2])
    for given, named in ((row, "[2]"), (slots(0), "[0]"), (slots(99), "[49]"), (slots(-1), "[-1]")):
        with pytest.raises(ValueError, match="are not owned") as told:
            allocator.free(given)
        assert named in str(told.value)
    assert free_pages(allocator) == [2, 5, 6, 7]
    allocator.free_group_begin()
    allocator.free_segments([(row[2:4], 2)])
    with pytest.raises(ValueError, match=r"\[3\] are not owned"):
        allocator.free(row[2:])
    allocator.free_group_end()
    assert free_pages(allocator) == [2, 3, 5, 6, 7]


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"shard_size": 1}, "shard_size=1: a group has at least 2 ranks"),
        ({"size": 5}, "size=5: must be a positive multiple of physical_page_size=2"),
        ({"size": 0}, "size=0: must be a positive multiple"),
        ({"page_size": 0}, "physical_page_size=0"),
    ],
)
def test_groups_that_cannot_be_are_refused(wrong: dict[str, int], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        ranks(**wrong)


def test_calls_that_end_inside_a_page_are_refused() -> None:
    with pytest.raises(ValueError, match="need_size=3: must be a multiple of page_size=2"):
        ranks().alloc_cyclic(0, 3)
    with pytest.raises(ValueError, match="start_pos=1: must begin a page of 2 tokens"):
        ranks().free_segment(slots(4), start_pos=1)


def test_a_request_builds_one() -> None:
    request = ShardedAllocatorRequest(size_per_rank=8, page_size=4, shard_size=3, device="cpu")
    built = build_reference_allocator(request)
    assert isinstance(built, InterleavedAllocator)
    assert (built.size, built.page_size, built.shard_size, built.shard_spec) == (24, 4, 3, None)
    for sizes in ((8, 4, 1), (6, 4, 2), (0, 4, 2), (4, 0, 2)):
        with pytest.raises(ValueError, match="ShardedAllocatorRequest"):
            ShardedAllocatorRequest(
                size_per_rank=sizes[0], page_size=sizes[1], shard_size=sizes[2], device="cpu"
            )
