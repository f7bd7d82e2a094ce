"""Token slots: the public examples, and what is promised beyond them."""

from __future__ import annotations

import pytest
import torch

from kvproto.protocols import PagedAllocator, SlotAllocator, explain
from tests.reference.allocators import free_pages, numbers, slots, token

pytestmark = pytest.mark.usefixtures("host_or_device")


def test_is_a_slot_allocator_by_declaration_and_not_a_paged_one() -> None:
    allocator = token(4)
    assert isinstance(allocator, SlotAllocator)
    assert explain(type(allocator), SlotAllocator) == explain(allocator, SlotAllocator) == []
    assert not isinstance(allocator, PagedAllocator)


@pytest.mark.parametrize("need_sort", [False, True])
def test_a_second_free_is_ignored(need_sort: bool) -> None:
    """LMCache#5005."""
    allocator = token(4, need_sort=need_sort)
    taken = allocator.alloc(2)
    assert numbers(taken) == [1, 2]
    assert taken is not None
    allocator.free(taken)
    allocator.free(taken)
    assert allocator.available_size() == 4
    assert sorted(numbers(allocator.alloc(4)) or ()) == [1, 2, 3, 4]
    assert allocator.alloc(1) is None


@pytest.mark.parametrize("need_sort", [False, True])
@pytest.mark.parametrize("in_group", [False, True])
def test_a_second_free_raises_in_strict_mode(need_sort: bool, in_group: bool) -> None:
    allocator = token(4, need_sort=need_sort, strict=True)
    allocator.alloc(2)
    if in_group:
        allocator.free_group_begin()
    allocator.free(slots(1, 2))
    with pytest.raises(ValueError, match=r"pages \[1, 2\] are not owned: freed before"):
        allocator.free(slots(1, 2))
    allocator.free_group_end()
    assert free_pages(allocator) == [1, 2, 3, 4]


@pytest.mark.parametrize("stranger", [0, -1, 5, 6, 1 << 40, -(1 << 40)])
@pytest.mark.parametrize("need_sort", [False, True])
def test_what_is_no_slot_never_enters_the_list(stranger: int, need_sort: bool) -> None:
    allocator = token(4, need_sort=need_sort)
    allocator.alloc(4)
    allocator.free(slots(stranger))
    allocator.free_segment(slots(stranger), start_pos=0)
    assert allocator.available_size() == 0
    allocator.free(slots(stranger, 3, stranger))
    assert free_pages(allocator) == [3]
    strict = token(4, need_sort=need_sort, strict=True)
    strict.alloc(4)
    with pytest.raises(ValueError, match=rf"pages \[{stranger}\] are not owned"):
        strict.free(slots(3, stranger))
    with pytest.raises(ValueError, match="not owned"):
        strict.free_segment(slots(stranger), start_pos=0)
    assert strict.available_size() == 0


def test_a_slot_may_be_named_twice_in_one_call() -> None:
    for strict in (False, True):
        allocator = token(4, strict=strict)
        allocator.alloc(4)
        allocator.free(slots(2, 2, 1, 2))
        assert free_pages(allocator) == [1, 2]


def test_a_free_slot_may_be_named_twice_in_one_call_too() -> None:
    allocator = token(4)
    allocator.alloc(4)
    allocator.free(slots(2))
    allocator.free(slots(2, 2))
    assert allocator.available_size() == 1
    assert free_pages(allocator) == [2]


def test_the_longest_free_slot_is_lent_first() -> None:
    allocator = token(4)
    allocator.alloc(3)
    allocator.free(slots(3, 1))
    assert numbers(allocator.alloc(3)) == [4, 3, 1]


def test_returned_slots_wait_to_be_sorted_in() -> None:
    allocator = token(4, need_sort=True)
    allocator.alloc(3)
    allocator.free(slots(3, 1))
    assert numbers(allocator.alloc(1)) == [4]
    assert numbers(allocator.alloc(2)) == [1, 3]


def test_a_group_holds_slots_back_and_copies_them() -> None:
    allocator = token(4)
    allocator.alloc(4)
    mine = slots(2, 4)
    allocator.free_group_begin()
    allocator.free(mine)
    mine.fill_(1)
    assert allocator.available_size() == 0
    with pytest.raises(RuntimeError, match="do not nest"):
        allocator.free_group_begin()
    allocator.free_group_end()
    assert free_pages(allocator) == [2, 4]
    allocator.free_group_end()
    assert free_pages(allocator) == [2, 4]


def test_a_freed_tensor_may_be_overwritten_at_once() -> None:
    allocator = token(4)
    mine = allocator.alloc(2)
    assert mine is not None
    allocator.free(mine)
    mine.fill_(4)
    assert numbers(allocator.alloc(4)) == [3, 4, 1, 2]


def test_lent_slots_are_not_the_list_itself() -> None:
    allocator = token(4)
    mine = allocator.alloc(4)
    assert mine is not None
    allocator.free(mine.clone())
    mine.fill_(0)
    assert free_pages(allocator) == [1, 2, 3, 4]


def test_clear_ends_a_group() -> None:
    allocator = token(4)
    allocator.alloc(4)
    allocator.free_group_begin()
    allocator.free(slots(1))
    allocator.clear()
    allocator.free_group_end()
    assert free_pages(allocator) == [1, 2, 3, 4]
    allocator.free_group_begin()


def test_nothing_is_legal_and_less_is_not() -> None:
    allocator = token(4)
    assert numbers(allocator.alloc(0)) == []
    allocator.free(slots())
    allocator.free_segment(slots(), start_pos=3)
    allocator.free_segments([])
    assert allocator.available_size() == 4
    with pytest.raises(ValueError, match="need_size=-1"):
        allocator.alloc(-1)
    with pytest.raises(ValueError, match="size=0: must be a positive multiple"):
        token(0)


def test_int32_slots_are_slots() -> None:
    allocator = token(4)
    allocator.alloc(4)
    allocator.free(torch.tensor([2, 3], dtype=torch.int32))
    assert free_pages(allocator) == [2, 3]


def test_says_what_it_is() -> None:
    pool = object()
    allocator = type(token(1))(
        size=4, dtype=torch.float16, device="cpu", kvcache=pool, need_sort=True
    )
    assert allocator.get_kvcache() is pool
    assert (allocator.size, allocator.page_size, allocator.need_sort) == (4, 1, True)
    assert (allocator.device, allocator.dtype) == (torch.device("cpu"), torch.float16)
