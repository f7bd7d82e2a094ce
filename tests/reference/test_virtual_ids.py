"""Ids whose slots may move: what is behind them, and what is told to kernels."""

from __future__ import annotations

import pytest
import torch

from kvproto.protocols import (
    CapabilityError,
    PagedAllocator,
    SlotAllocator,
    VirtualIdAllocator,
    VirtualIdsRequest,
    explain,
)
from kvproto.reference import VirtualIds
from kvproto.reference.build_allocator import build_reference_allocator
from tests.reference.allocators import numbers, paged, slots


def ids(size: int = 16, pages: int = 4) -> VirtualIds:
    """Four pages of four ids, over as many physical pages."""
    return VirtualIds(
        virtual_allocator=paged(size), physical_pages=pages, unified_buffer="buffer", kvcache=None
    )


def physical(allocator: VirtualIds, *given: int) -> list[int] | None:
    return numbers(allocator.translate_kv_loc(slots(*given)))


def test_is_one_by_declaration() -> None:
    for protocol in (SlotAllocator, VirtualIdAllocator):
        assert explain(VirtualIds, protocol) == explain(ids(), protocol) == []
    assert not isinstance(ids(), PagedAllocator)
    assert (ids().draft_virtual_id_space, ids().unified_buffer) == (19, "buffer")


def test_the_same_ids_may_have_other_slots() -> None:
    """Ids freed last are lent first, pages freed first are taken first."""
    allocator = ids()
    table = allocator.full_v2p_page_table
    assert numbers(allocator.alloc(8)) == [4, 5, 6, 7, 8, 9, 10, 11]
    allocator.free(slots(5))
    assert numbers(allocator.alloc(4)) == [4, 5, 6, 7]
    assert physical(allocator, 4, 7, 8, 12, 0, -1, 20, 99) == [12, 15, 8, 0, 0, 0, 0, 0]
    assert table is allocator.full_v2p_page_table
    assert table.tolist() == [0, 3, 2, 0, 0]


def test_a_moved_page_keeps_its_ids() -> None:
    allocator = ids()
    allocator.alloc(8)
    assert allocator.move_page(1) == (1, 3)
    assert physical(allocator, 4, 8) == [12, 8]
    assert allocator.available_size() == 8
    allocator.alloc(8)
    with pytest.raises(ValueError, match="virtual_page=2: no physical page is free"):
        allocator.move_page(2)
    allocator.free(slots(8))
    with pytest.raises(ValueError, match="virtual_page=2: it has no physical page"):
        allocator.move_page(2)


def test_a_page_goes_back_once_with_its_ids() -> None:
    allocator = ids()
    allocator.alloc(16)
    allocator.free_group_begin()
    allocator.free(slots(4, 5, -1, 0, 99))
    allocator.free_segments([(slots(8, 9, 10, 11), 4), (slots(4, 5, 6, 7), 0)])
    assert (physical(allocator, 4, 8, 12), allocator.available_size()) == ([0, 0, 12], 0)
    allocator.free_group_end()
    assert allocator.available_size() == 8
    assert allocator.alloc(12) is None
    assert allocator.available_size() == 8


def test_fewer_pages_than_ids_decide_what_is_available() -> None:
    allocator = ids(pages=2)
    assert (allocator.size, allocator.available_size()) == (8, 8)
    assert allocator.alloc(12) is None
    assert numbers(allocator.alloc(8)) == [4, 5, 6, 7, 8, 9, 10, 11]
    assert allocator.full_v2p_page_table.tolist() == [0, 1, 2, 0, 0]


def test_results_go_where_a_captured_graph_looks() -> None:
    allocator = ids()
    allocator.alloc(4)
    out = torch.full((3,), 9)
    assert allocator.translate_kv_loc(slots(5, 0, 6), out=out) is out
    assert out.tolist() == [5, 0, 6]
    assert allocator.translate_write_loc(slots(7).int(), out=out, out_width=3) is out
    assert out.tolist() == [7, 0, 0]
    with pytest.raises(ValueError, match="out_width=1: there are 2 ids"):
        allocator.translate_write_loc(slots(4, 5), out_width=1)
    for wrong in (torch.zeros(2, dtype=torch.int64), torch.zeros(3)):
        with pytest.raises(ValueError, match=r"must be int64 \[3\]"):
            allocator.translate_kv_loc(slots(4, 5, 6), out=wrong)


def test_ids_may_be_translated_where_they_are() -> None:
    allocator = ids()
    allocator.alloc(8)
    allocator.move_page(2)
    behind = numbers(allocator.translate_kv_loc(slots(8, 0, 5)))
    place = slots(8, 0, 5)
    assert allocator.translate_write_loc(place, out=place) is place
    assert numbers(place) == behind != [8, 0, 5]
    wide = slots(8, 0, 5, 7)
    allocator.translate_write_loc(wide[:3], out=wide, out_width=4)
    assert numbers(wide) == [*(behind or []), 0]


def test_parts_must_be_what_they_are_used_as() -> None:
    with pytest.raises(CapabilityError, match="virtual ids"):
        VirtualIds(
            virtual_allocator=torch.zeros(1),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
            physical_pages=1,
            unified_buffer=None,
            kvcache=None,
        )
    with pytest.raises(ValueError, match="physical_pages=0: must be at least 1"):
        ids(pages=0)
    with pytest.raises(ValueError, match=r"VirtualIdsRequest\.size=6: must be a positive multiple"):
        VirtualIdsRequest(size=6, page_size=4, device="cpu")


def test_a_request_builds_one() -> None:
    built = build_reference_allocator(VirtualIdsRequest(size=8, page_size=4, device="cpu"))
    assert isinstance(built, VirtualIds)
    assert (built.size, built.page_size) == (8, 4)
