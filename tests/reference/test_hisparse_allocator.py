"""Ids over a smaller device: who has a place there, and what becomes of a buffer."""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test

from kvproto.conformance.hisparse_bench import HiSparseBench
from kvproto.conformance.models import DeviceMachine
from kvproto.protocols import (
    AllocatorRequest,
    CapabilityError,
    Declined,
    HiSparse,
    HiSparseAllocator,
    HiSparseAllocatorRequest,
    PagedAllocator,
    explain,
)
from kvproto.reference import DeviceLocations, DeviceSubsetAllocator, PageAllocator
from kvproto.reference.build_allocator import build_reference_allocator
from tests.reference.allocators import decode, extend, free_pages, numbers, paged, slots, token
from tests.reference.sync_free import SyncFree


def over(
    ids: int = 32, device: int = 16, page_size: int = 4, strict: bool = False
) -> DeviceSubsetAllocator:
    parts = [paged(size, page_size, strict=strict) for size in (ids, device)]
    return DeviceSubsetAllocator(
        logical_attn_allocator=parts[0],
        hisparse_attn_allocator=parts[1],
        kvcache=DeviceLocations(),
    )


def places(allocator: DeviceSubsetAllocator, *ids: int) -> list[int] | None:
    pool: Any = allocator.get_kvcache()
    return numbers(pool.translate_loc_from_full_to_hisparse_device(slots(*ids)))


def placed(allocator: DeviceSubsetAllocator, tokens: int) -> list[int]:
    """The ids of a new request, each with a place."""
    row = extend(allocator, [0], [tokens], [-1])
    assert row is not None
    return row


def logical(
    allocator: HiSparseAllocator, prefix: int, seq: int, last: int = -1
) -> list[int] | None:
    before, after = slots(prefix), slots(seq)
    lens = (before, before.clone(), after, after.clone())
    return numbers(allocator.alloc_logical_only(*lens, slots(last), seq - prefix))


def test_is_one_by_declaration() -> None:
    for protocol in (HiSparseAllocator, PagedAllocator):
        assert explain(DeviceSubsetAllocator, protocol) == explain(over(), protocol) == []
    assert explain(DeviceLocations, HiSparse) == []


def test_ids_are_more_than_device_slots() -> None:
    allocator = over()
    assert (allocator.size, allocator.size_full, allocator.available_size()) == (32, 32, 16)
    assert extend(allocator, [0], [6], [-1]) == [4, 5, 6, 7, 8, 9]
    assert logical(allocator, 0, 5) == [12, 13, 14, 15, 16]
    assert extend(allocator, [0], [2], [-1]) == [20, 21]
    assert places(allocator, 4, 9, 12, 16, 20, 21) == [4, 9, 0, 0, 12, 13]
    assert allocator.full_to_hisparse_device_index_mapping[-1] == -1


def test_a_decoded_token_has_no_place() -> None:
    allocator = over()
    extend(allocator, [0], [3], [-1])
    assert decode(allocator, [4], [6]) == [7]
    assert decode(allocator, [5], [7]) == [8]
    assert places(allocator, 6, 7, 8) == [6, 0, 0]
    assert free_pages(allocator.hisparse_attn_allocator) == [2, 3, 4]


def test_what_continues_beside_it_has_none_and_the_next_page_has() -> None:
    """The reserved page of the device is never a place."""
    allocator = over()
    logical(allocator, 0, 2)
    assert extend(allocator, [2], [5], [5]) == [6, 7, 8]
    assert places(allocator, 4, 5, 6, 7, 8) == [0, 0, 0, 0, 4]


def test_a_buffer_is_the_requests_own_pages_and_then_new_ones() -> None:
    allocator = over()
    extend(allocator, [0], [4], [-1])
    row = placed(allocator, 6)
    assert row == [8, 9, 10, 11, 12, 13]
    buffer = allocator.alloc_device_buffer(slots(*row), 12)
    assert numbers(buffer) == [8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19]
    assert places(allocator, *row) == [0] * 6
    allocator.free(slots(*row))
    assert free_pages(allocator.hisparse_attn_allocator) == []
    assert buffer is not None
    allocator.free_hisparse_indices(buffer)
    assert free_pages(allocator.hisparse_attn_allocator) == [2, 3, 4]


def test_a_smaller_buffer_frees_the_rest_whatever_the_order_of_ids() -> None:
    allocator = over()
    extend(allocator, [0], [10], [-1])
    buffer = allocator.alloc_device_buffer(slots(9, 13, 5, 12, 8, 4), 8)
    assert numbers(buffer) == [8, 9, 10, 11, 12, 13, 14, 15]
    assert places(allocator, 4, 5, 8, 13) == [0] * 4
    assert free_pages(allocator.hisparse_attn_allocator) == [1, 4]


def test_a_buffer_that_does_not_fit_takes_nothing() -> None:
    allocator = over()
    row = placed(allocator, 5)
    assert allocator.alloc_device_buffer(slots(*row), 20) is None
    assert places(allocator, *row) == row
    assert free_pages(allocator.hisparse_attn_allocator) == [3, 4]


@pytest.mark.parametrize("need", [-4, 6])
def test_a_buffer_is_whole_pages(need: int) -> None:
    with pytest.raises(ValueError, match=f"need_size={need}: must be a multiple of page_size=4"):
        over().alloc_device_buffer(slots(), need)


def test_a_place_is_freed_once_and_by_the_page() -> None:
    allocator = over(strict=True)
    row = placed(allocator, 6)
    allocator.free_hisparse(slots(5, -1, 0))
    allocator.free_hisparse(slots(4, 6))
    assert places(allocator, *row) == [0, 0, 0, 0, 8, 9]
    assert free_pages(allocator.hisparse_attn_allocator) == [1, 3, 4]
    allocator.free(slots(*row))
    assert free_pages(allocator.logical_attn_allocator) == list(range(1, 9))
    assert free_pages(allocator.hisparse_attn_allocator) == [1, 2, 3, 4]


def test_slots_of_the_reserved_page_are_skipped_also_by_a_strict_allocator() -> None:
    allocator = over(strict=True)
    buffer = allocator.alloc_device_buffer(slots(), 4)
    assert buffer is not None
    allocator.free_hisparse_indices(torch.cat((slots(0, 3, -1, -5), buffer)))
    assert allocator.available_size() == 16
    with pytest.raises(ValueError, match=r"\[1\] are not owned"):
        allocator.free_hisparse_indices(buffer)


def test_segments_are_freed_without_looking() -> None:
    allocator = over()
    extend(allocator, [0], [8], [-1])
    allocator.free_hisparse(slots(4))
    with SyncFree():  # type: ignore[no-untyped-call]
        allocator.free_segment(slots(4, 5, 6, 7, 8, 9, 10, 11), start_pos=0)
    assert (allocator.available_size(), free_pages(allocator.hisparse_attn_allocator)) == (
        16, [1, 2, 3, 4],
    )  # fmt: skip


class Foreign(PageAllocator):
    """A platform's paged allocator, which frees by the slot and no other way."""

    free_mapped_pages: Any = None  # opted out


def foreign(part: AllocatorRequest) -> Any:
    return Foreign(part.size, part.page_size, torch.int64, "cpu", None, part.need_sort)


def test_both_sides_are_asked_of_the_platform() -> None:
    request = HiSparseAllocatorRequest(size=16, page_size=4, device="cpu", host_to_device_ratio=3)
    asked: list[AllocatorRequest] = []

    def platform(part: AllocatorRequest) -> Any:
        asked.append(part)
        return foreign(part)

    built = build_reference_allocator(request, build_allocator=platform)
    assert isinstance(built, DeviceSubsetAllocator)
    assert type(built.logical_attn_allocator) is type(built.hisparse_attn_allocator) is Foreign
    assert [(part.kind, part.size, part.page_size) for part in asked] == [
        ("paged", 48, 4), ("paged", 16, 4),
    ]  # fmt: skip
    extend(built, [0], [8], [-1])
    built.free_hisparse(slots(4))
    built.free_segment(slots(4, 5, 6, 7, 8, 9, 10, 11), start_pos=0)
    assert built.available_size() == 16


@pytest.mark.parametrize(("size", "which"), [(48, "ids"), (16, "device slots")])
def test_a_side_that_is_declined_declines_both(size: int, which: str) -> None:
    request = HiSparseAllocatorRequest(size=16, page_size=4, device="cpu", host_to_device_ratio=3)

    def platform(part: AllocatorRequest) -> Any:
        return Declined("not today") if part.size == size else foreign(part)

    told = build_reference_allocator(request, build_allocator=platform)
    assert told == Declined(f"the {which} of hierarchical sparse attention: not today")


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"page_size": 0}, "page_size=0: must be an integer of at least 1"),
        ({"size": 6}, "HiSparseAllocatorRequest.size=6: not a multiple of page_size=4"),
        ({"host_to_device_ratio": 0}, "host_to_device_ratio=0: must be an integer of at least 1"),
    ],
)
def test_requests_that_cannot_be_are_refused(wrong: dict[str, Any], match: str) -> None:
    asked: dict[str, Any] = {"size": 8, "page_size": 4, "device": "cpu"}
    with pytest.raises(ValueError, match=match):
        HiSparseAllocatorRequest(**asked | wrong)


def test_parts_must_be_paged_and_of_one_page_size() -> None:
    with pytest.raises(CapabilityError, match="hierarchical sparse attention"):
        DeviceSubsetAllocator(
            logical_attn_allocator=paged(8, 1), hisparse_attn_allocator=token(4), kvcache=None
        )
    with pytest.raises(ValueError, match="page_size=4 of the logical allocator and 2 of the dev"):
        DeviceSubsetAllocator(
            logical_attn_allocator=paged(8, 4), hisparse_attn_allocator=paged(4, 2), kvcache=None
        )


def test_translation_needs_a_table() -> None:
    locations = DeviceLocations()
    with pytest.raises(RuntimeError, match="the allocator has to call register_mapping"):
        locations.translate_loc_to_hisparse_device(slots(1))
    with pytest.raises(ValueError, match=r"torch\.float32 of shape \(2,\), must be one row"):
        locations.register_mapping(torch.zeros(2))
    locations.register_mapping(torch.tensor([9, 2, 0, -1], dtype=torch.int32))
    assert numbers(locations.translate_loc_to_hisparse_device(slots(0, 1, 2, -3))) == [0, 2, 0, -1]
    with pytest.raises(IndexError):
        locations.translate_loc_to_hisparse_device(slots(4))
    loc = slots(1, 2)
    assert locations.translate_loc_from_full_to_compressed(loc) is loc


def fresh(pages: int, ratio: int, page_size: int, need_sort: bool) -> HiSparseBench:
    request = HiSparseAllocatorRequest(
        size=pages * page_size,
        page_size=page_size,
        device="cpu",
        need_sort=need_sort,
        host_to_device_ratio=ratio,
    )
    return HiSparseBench(request, build_reference_allocator(request, DeviceLocations()))


class Devices(DeviceMachine):
    """On allocators of many sizes."""

    subjects = st.builds(
        fresh,
        pages=st.integers(1, 7),
        ratio=st.integers(1, 3),
        page_size=st.sampled_from((1, 3, 4)),
        need_sort=st.booleans(),
    )
    ran: ClassVar = Counter[str]()
    calls: ClassVar = list[str]()


def test_accounts_follow_the_model() -> None:
    Devices.ran.clear()
    run_state_machine_as_test(
        Devices,
        settings=settings(max_examples=50, stateful_step_count=40, deadline=None, derandomize=True),
    )
    assert set(Devices.ran) == Devices.RULES
