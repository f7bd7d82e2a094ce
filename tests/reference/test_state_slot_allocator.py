"""State slots, and slots taken ahead."""

from __future__ import annotations

import pytest
import torch

from kvproto.protocols import SlotAllocator, StateSlotAllocator, explain
from kvproto.reference.state_slot_allocator import StateSlots
from tests.reference.allocators import free_pages, numbers, slots


def test_is_one_by_declaration() -> None:
    allocator = StateSlots(size=4, device="cpu")
    assert isinstance(allocator, StateSlotAllocator)
    assert explain(StateSlots, StateSlotAllocator) == explain(allocator, StateSlotAllocator) == []
    assert not isinstance(allocator, SlotAllocator)
    assert (allocator.size, allocator.device) == (4, torch.device("cpu"))


def test_all_or_nothing_and_the_longest_free_first() -> None:
    allocator = StateSlots(4, "cpu")
    assert numbers(allocator.alloc(3)) == [1, 2, 3]
    assert allocator.alloc(2) is None
    assert (allocator.available_size(), allocator.schedulable_available_size()) == (1, 1)
    allocator.free(slots(2))
    assert numbers(allocator.alloc(2)) == [4, 2]
    assert numbers(allocator.alloc(0)) == []


def test_a_second_free_is_ignored_or_raises() -> None:
    for stranger in (2, 0, -1, 5):
        lenient, strict = StateSlots(4, "cpu"), StateSlots(4, "cpu", strict=True)
        lenient.alloc(1)
        strict.alloc(1)
        lenient.free(slots(stranger))
        with pytest.raises(ValueError, match=rf"pages \[{stranger}\] are not owned"):
            strict.free(slots(1, stranger))
        assert free_pages(lenient) == free_pages(strict) == [2, 3, 4]


def test_a_freed_tensor_may_be_overwritten_at_once() -> None:
    allocator = StateSlots(2, "cpu")
    mine = allocator.alloc(1)
    assert mine is not None
    allocator.free(mine)
    mine.fill_(2)
    assert free_pages(allocator) == [1, 2]


def test_what_is_taken_ahead_is_given_out_or_returned() -> None:
    allocator = StateSlots(4, "cpu")
    allocator.alloc_group_begin(3)
    assert allocator.available_size() == 1
    assert numbers(allocator.alloc(1)) == [1]
    assert allocator.alloc(2) is None
    allocator.alloc_group_end()
    assert free_pages(allocator) == [2, 3, 4]
    allocator.alloc_group_end()
    assert numbers(allocator.alloc(3)) == [4, 2, 3]


def test_a_group_too_large_takes_nothing_ahead() -> None:
    allocator = StateSlots(2, "cpu")
    allocator.alloc_group_begin(3)
    assert allocator.available_size() == 2
    assert [numbers(allocator.alloc(1)) for _ in range(3)] == [[1], [2], None]
    allocator.alloc_group_end()
    allocator.alloc_group_begin(0)
    assert allocator.available_size() == 0


def test_a_group_left_open_loses_no_slot() -> None:
    allocator = StateSlots(4, "cpu")
    allocator.alloc_group_begin(2)
    allocator.alloc_group_begin(2)
    assert allocator.available_size() == 2
    allocator.clear()
    allocator.alloc_group_end()
    assert free_pages(allocator) == [1, 2, 3, 4]


@pytest.mark.parametrize("strict", [False, True])
def test_nobody_can_free_what_is_taken_ahead(strict: bool) -> None:
    allocator = StateSlots(4, "cpu", strict=strict)
    allocator.alloc_group_begin(2)
    if strict:
        with pytest.raises(ValueError, match="not owned"):
            allocator.free(slots(2))
    else:
        allocator.free(slots(2))
    assert numbers(allocator.alloc(1)) == [1]
    assert numbers(allocator.alloc(1)) == [2]
    assert allocator.available_size() == 2


def test_less_than_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="need_size=-1"):
        StateSlots(4, "cpu").alloc(-1)
    with pytest.raises(ValueError, match="size=0: must be at least 1"):
        StateSlots(0, "cpu")
