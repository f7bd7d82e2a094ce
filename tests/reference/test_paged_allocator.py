"""Pages: the public examples, and what is promised beyond them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import kvproto.reference.device_pages as module
from kvproto.protocols import PagedAllocator, SlotAllocator, SWAAllocator, explain
from kvproto.reference import slot_allocator
from kvproto.reference.device_pages import DevicePages
from kvproto.reference.host_pages import HostPages
from tests.reference.allocators import decode, extend, free_pages, numbers, paged, slots

pytestmark = pytest.mark.usefixtures("host_or_device")


@pytest.mark.parametrize("capability", [SlotAllocator, PagedAllocator])
def test_has_its_capabilities_by_declaration(capability: type) -> None:
    allocator = paged(16)
    assert isinstance(allocator, capability)
    assert issubclass(type(allocator), capability)
    assert explain(allocator, capability) == []
    assert not isinstance(allocator, SWAAllocator)


@pytest.mark.parametrize("need_sort", [False, True])
@pytest.mark.parametrize("in_group", [False, True])
def test_a_page_freed_in_two_halves_is_listed_once(need_sort: bool, in_group: bool) -> None:
    """LMCache#5005."""
    allocator = paged(16, need_sort=need_sort)
    assert numbers(allocator.alloc(4)) == [4, 5, 6, 7]
    if in_group:
        allocator.free_group_begin()
    allocator.free(slots(4, 5))
    allocator.free(slots(6, 7))
    allocator.free_segment(slots(4, 5, 6, 7), start_pos=0)
    allocator.free_group_end()
    assert allocator.available_size() == 16
    assert free_pages(allocator) == [1, 2, 3, 4]


@pytest.mark.parametrize("need_sort", [False, True])
def test_all_slots_of_a_page_are_one_release(need_sort: bool) -> None:
    for strict in (False, True):
        allocator = paged(16, need_sort=need_sort, strict=strict)
        allocator.alloc(4)
        allocator.free(slots(4, 5, 6, 7))
        assert free_pages(allocator) == [1, 2, 3, 4]


@pytest.mark.parametrize("in_group", [False, True])
@pytest.mark.parametrize("need_sort", [False, True])
def test_a_second_free_raises_in_strict_mode(in_group: bool, need_sort: bool) -> None:
    allocator = paged(16, need_sort=need_sort, strict=True)
    allocator.alloc(8)
    if in_group:
        allocator.free_group_begin()
    allocator.free(slots(4, 5))
    with pytest.raises(ValueError, match=r"pages \[1\] are not owned.*of 1\.\.4; nothing was"):
        allocator.free(slots(8, 6))
    with pytest.raises(ValueError, match=r"pages \[1\] are not owned"):
        allocator.free_segment(slots(4, 5, 6, 7), start_pos=0)
    allocator.free_group_end()
    assert free_pages(allocator) == [1, 3, 4]


@pytest.mark.parametrize("stranger", [0, 3, -1, -4, 20, 24, 1 << 40])
def test_what_is_no_slot_never_enters_the_list(stranger: int) -> None:
    for need_sort in (False, True):
        allocator = paged(16, need_sort=need_sort)
        allocator.alloc(16)
        allocator.free(slots(stranger))
        allocator.free_segment(slots(stranger), start_pos=0)
        allocator.free(slots(stranger, 9, stranger))
        assert free_pages(allocator) == [2]
    strict = paged(16, strict=True)
    strict.alloc(16)
    with pytest.raises(ValueError, match="not owned"):
        strict.free(slots(9, stranger))
    assert strict.available_size() == 0


def test_pages_are_counted_before_anything_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    """sglang#34399."""
    launched: list[str] = []
    for name in ("alloc_extend", "alloc_decode"):
        real: Any = getattr(module, name)

        def spy(*arguments: Any, name: str = name, real: Any = real) -> Any:
            launched.append(name)
            return real(*arguments)

        monkeypatch.setattr(module, name, spy)
    monkeypatch.setattr(slot_allocator, "has_numpy", False)
    allocator = paged(8)
    assert extend(allocator, [0], [12], [-1]) is None
    assert free_pages(allocator) == [1, 2]
    assert decode(allocator, [5, 5, 5], [7, 11, 15]) is None
    assert free_pages(allocator) == [1, 2]
    assert launched == []
    assert extend(allocator, [0], [8], [-1]) == [4, 5, 6, 7, 8, 9, 10, 11]
    assert launched == ["alloc_extend"]


def test_requests_continue_on_their_last_page() -> None:
    allocator = paged(32)
    assert extend(allocator, [0, 0], [3, 6], [-1, -1]) == [4, 5, 6, 8, 9, 10, 11, 12, 13]
    assert extend(allocator, [3, 6], [9, 7], [6, 13]) == [7, 16, 17, 18, 19, 20, 14]
    assert decode(allocator, [10, 8, 1], [20, 14, -1]) == [21, 15, 24]
    assert decode(allocator, [9], [15]) == [28]
    assert allocator.available_size() == 4


def test_a_batch_that_needs_no_page_is_served_from_an_empty_list() -> None:
    allocator = paged(4)
    assert extend(allocator, [0], [2], [-1]) == [4, 5]
    assert extend(allocator, [2], [3], [5]) == [6]
    assert decode(allocator, [4], [6]) == [7]
    assert decode(allocator, [5], [7]) is None
    assert extend(allocator, [], [], []) == []


def test_the_last_freed_page_is_lent_first() -> None:
    allocator = paged(16)
    allocator.alloc(12)
    allocator.free(slots(12, 4))
    allocator.free(slots(8))
    assert numbers(allocator.alloc(16)) == [*range(8, 12), *range(4, 8), *range(12, 20)]


def test_segments_go_back_by_the_page() -> None:
    allocator = paged(32)
    row = allocator.alloc(16)
    assert row is not None
    allocator.free_segment(row[4:10], start_pos=4)
    row.fill_(4)
    assert free_pages(allocator) == [2, 3, 5, 6, 7, 8]
    allocator.free_segments([(slots(16, 17), 12), (slots(), 3), (slots(4), 0)])
    assert free_pages(allocator) == [1, 2, 3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize(
    ("start_pos", "words"), [(2, "start_pos=2: must begin a page of 4"), (5, "start_pos=5")]
)
def test_a_segment_begins_a_page(start_pos: int, words: str) -> None:
    allocator = paged(16)
    allocator.alloc(8)
    with pytest.raises(ValueError, match=words):
        allocator.free_segment(slots(4, 5), start_pos=start_pos)
    assert allocator.available_size() == 8


def test_no_two_segments_share_a_page() -> None:
    allocator = paged(16)
    allocator.alloc(12)
    with pytest.raises(ValueError, match="segment at 4: must begin a page of 4 tokens that no"):
        allocator.free_segments([(slots(4, 5, 6, 7, 8), 0), (slots(8), 4)])
    assert allocator.available_size() == 4


def test_the_host_lengths_must_agree_with_the_count() -> None:
    allocator = paged(16)
    one, four = slots(0), slots(4)
    with pytest.raises(ValueError, match="extend_num_tokens=3: the lengths say 4"):
        allocator.alloc_extend(one, one, four, four, slots(-1), 3)
    with pytest.raises(ValueError, match="at least as long as its prefix"):
        allocator.alloc_extend(four, four, one, one, slots(7), -4)
    assert allocator.available_size() == 16


EXTEND: dict[str, list[int]] = {
    "prefix_lens": [0, 0],
    "prefix_lens_cpu": [0, 0],
    "seq_lens": [4, 4],
    "seq_lens_cpu": [4, 4],
    "last_loc": [-1, -1],
}
DECODE = {"seq_lens": [5, 5], "seq_lens_cpu": [5, 5], "last_loc": [7, 11]}


@pytest.mark.parametrize("cls", [HostPages, DevicePages])
@pytest.mark.parametrize("change", [1, 3])
@pytest.mark.parametrize("name", EXTEND)
def test_no_page_is_taken_for_tensors_of_other_batches(
    cls: type[HostPages | DevicePages], name: str, change: int
) -> None:
    """In host memory and on a device, by the same words."""
    pages = HostPages(4, 4) if cls is HostPages else DevicePages(4, torch.device("cpu"), 4)
    calls: list[tuple[dict[str, list[int]], Any]] = [(EXTEND, pages.extend), (DECODE, pages.decode)]
    for given, call in calls:
        if name in given:
            wrong = slots(*([1] * change))
            tensors = [wrong if each == name else slots(*given[each]) for each in given]
            count = [8] if given is EXTEND else []
            with pytest.raises(ValueError, match=rf"{name} \({change},\).* nothing was allocated"):
                call(*tensors, *count)
    assert pages.available() == 4


@pytest.mark.parametrize(
    ("size", "page_size", "words"),
    [
        (6, 4, "size=6: must be a positive multiple of page_size=4; round down to 4"),
        (0, 4, "size=0"),
        (4, 0, "page_size=0: must be at least 1"),
    ],
)
def test_impossible_sizes_are_refused(size: int, page_size: int, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        paged(size, page_size)


def test_a_need_that_ends_inside_a_page_is_refused() -> None:
    with pytest.raises(ValueError, match="need_size=3: must be a multiple of page_size=4"):
        paged(16).alloc(3)


@pytest.mark.parametrize("page_size", [1, 3, 4])
def test_any_page_size_will_do(page_size: int) -> None:
    allocator = paged(12, page_size)
    given = extend(allocator, [0], [5], [-1]) or []
    assert given == list(range(page_size, page_size + 5))
    assert decode(allocator, [6], [given[-1]]) == [page_size + 5]
    allocator.free(slots(*given))
    allocator.free(slots(page_size + 5))
    assert free_pages(allocator) == list(range(1, 12 // page_size + 1))


def test_int32_lengths_and_slots_are_taken() -> None:
    allocator = paged(16)
    zero, five = (torch.tensor([n], dtype=torch.int32) for n in (0, 5))
    last = torch.tensor([-1], dtype=torch.int32)
    given = allocator.alloc_extend(zero, zero, five, five, last, 5)
    assert numbers(given) == [4, 5, 6, 7, 8]
    six = five + 1
    assert numbers(allocator.alloc_decode(six, six, five + 3)) == [9]
