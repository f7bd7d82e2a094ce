"""Full and window pairs: the public examples, and what is promised beyond them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from kvproto.protocols import CapabilityError, PagedAllocator, SlotAllocator, SWAAllocator, explain
from kvproto.reference.swa_allocator import SWAPairAllocator
from tests.reference.allocators import (
    decode,
    extend,
    free_pages,
    numbers,
    paged,
    pair,
    slots,
    tail,
    token,
)

pytestmark = pytest.mark.usefixtures("host_or_device")


def mapping(allocator: SWAPairAllocator, start: int, stop: int) -> list[int]:
    return numbers(allocator.full_to_swa_index_mapping[start:stop]) or []


def window_free(allocator: SWAPairAllocator) -> list[int]:
    return free_pages(allocator.swa_attn_allocator)


class WindowPool:
    """A pool that is given the mapping."""

    full_to_swa_index_mapping: Tensor | None = None

    def register_mapping(self, full_to_swa_index_mapping: Tensor, /) -> None:
        assert self.full_to_swa_index_mapping is None
        self.full_to_swa_index_mapping = full_to_swa_index_mapping

    def translate_loc_from_full_to_swa(self, kv_indices: Tensor, /) -> Tensor:
        assert self.full_to_swa_index_mapping is not None
        return self.full_to_swa_index_mapping[kv_indices]


class VendorAllocator:
    """No class in common with ours, and no door beyond the protocol; frees are recorded."""

    def __init__(self, size: int, page_size: int) -> None:
        self._inner = paged(size, page_size)
        self.size, self.page_size, self.device = size, page_size, "cpu"
        self.freed: list[int] = []

    def get_kvcache(self) -> object:
        return self

    def available_size(self) -> int:
        return self._inner.available_size()

    def alloc(self, need_size: int) -> Tensor | None:
        return self._inner.alloc(need_size)

    def alloc_extend(
        self,
        prefix_lens: Tensor,
        prefix_lens_cpu: Tensor,
        seq_lens: Tensor,
        seq_lens_cpu: Tensor,
        last_loc: Tensor,
        extend_num_tokens: int,
        num_new_pages: int | None = None,
    ) -> Tensor | None:
        return self._inner.alloc_extend(
            prefix_lens, prefix_lens_cpu, seq_lens, seq_lens_cpu, last_loc, extend_num_tokens
        )

    def alloc_decode(
        self, seq_lens: Tensor, seq_lens_cpu: Tensor, last_loc: Tensor
    ) -> Tensor | None:
        return self._inner.alloc_decode(seq_lens, seq_lens_cpu, last_loc)

    def free(self, free_index: Tensor) -> None:
        self.freed += free_index.tolist()
        self._inner.free(free_index)

    def free_segment(self, free_index: Tensor, *, start_pos: int) -> None:
        self._inner.free_segment(free_index, start_pos=start_pos)

    def free_segments(self, segments: Any) -> None:
        self._inner.free_segments(segments)

    def free_group_begin(self) -> None:
        self._inner.free_group_begin()

    def free_group_end(self) -> None:
        self._inner.free_group_end()

    def clear(self) -> None:
        self._inner.clear()


@pytest.mark.parametrize("capability", [SlotAllocator, PagedAllocator, SWAAllocator])
@pytest.mark.parametrize("page_size", [1, 4])
def test_has_its_capabilities_by_declaration(capability: type, page_size: int) -> None:
    allocator = pair(16, 16, page_size)
    assert isinstance(allocator, capability)
    assert issubclass(type(allocator), capability)
    assert explain(allocator, capability) == []


@pytest.mark.parametrize("strict", [False, True])
def test_the_mapping_lives_as_long_as_the_page(strict: bool) -> None:
    """sglang#27779."""
    allocator = pair(16, 16, strict=strict)
    assert extend(allocator, [0], [8], [-1]) == list(range(4, 12))
    assert mapping(allocator, 4, 12) == list(range(4, 12))
    assert allocator.swa_available_size() == 8
    allocator.free_swa(slots(5))
    assert mapping(allocator, 4, 12) == [0, 0, 0, 0, 8, 9, 10, 11]
    assert allocator.swa_available_size() == 12
    allocator.free_swa(slots(6, 7))
    assert allocator.swa_available_size() == 12
    allocator.free(torch.arange(4, 12))
    assert (allocator.full_available_size(), allocator.swa_available_size()) == (16, 16)
    assert free_pages(allocator.full_attn_allocator) == [1, 2, 3, 4]
    assert window_free(allocator) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("swa_tail_len", "expected", "left"), [(4, [0] * 8 + [4, 5, 6, 7], 4), (0, [0] * 12, 8)]
)
def test_allocation_decides_every_mapping(
    swa_tail_len: int, expected: list[int], left: int
) -> None:
    """sglang#25805."""
    allocator = pair(32, 8)
    allocator.full_to_swa_index_mapping[4:16] = slots(4, 5, 6, 7, 8, 9, 10, 11, 4, 5, 6, 7)
    assert tail(allocator, 0, 12, swa_tail_len) == list(range(4, 16))
    assert mapping(allocator, 4, 16) == expected
    assert allocator.swa_available_size() == left
    allocator.free_swa(torch.arange(4, 16))
    assert window_free(allocator) == [1, 2]
    assert mapping(allocator, 4, 16) == [0] * 12


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("in_group", [False, True])
def test_a_segment_skips_what_has_no_peer(strict: bool, in_group: bool) -> None:
    """sglang#38519."""
    allocator = pair(16, 16, strict=strict)
    assert tail(allocator, 0, 12, 4) == list(range(4, 16))
    assert mapping(allocator, 4, 16) == [0] * 8 + [4, 5, 6, 7]
    assert allocator.swa_available_size() == 12
    if in_group:
        allocator.free_group_begin()
    allocator.free_swa_segment(torch.arange(4, 16), start_pos=0)
    assert mapping(allocator, 4, 16) == [0] * 12
    allocator.free_swa_segment(torch.arange(4, 16), start_pos=0)
    allocator.free_group_end()
    assert allocator.swa_available_size() == 16
    assert window_free(allocator) == [1, 2, 3, 4]
    lent = numbers(allocator.swa_attn_allocator.alloc(16))
    assert lent is not None
    assert min(lent) == 4


def test_neither_space_changes_when_one_has_too_few() -> None:
    """sglang#34399, on a pair."""
    allocator = pair(32, 8)
    before = allocator.full_to_swa_index_mapping.clone()
    assert extend(allocator, [0], [12], [-1]) is None
    assert tail(allocator, 0, 12, 12) is None
    assert allocator.alloc(12) is None
    assert (allocator.full_available_size(), allocator.swa_available_size()) == (32, 8)
    assert torch.equal(allocator.full_to_swa_index_mapping, before)
    assert extend(allocator, [0, 0], [4, 4], [-1, -1]) == list(range(4, 12))
    assert decode(allocator, [5, 5], [7, 11]) is None
    assert (allocator.full_available_size(), allocator.swa_available_size()) == (24, 0)
    small = pair(8, 32)
    assert tail(small, 0, 12, 4) is None
    assert (small.full_available_size(), small.swa_available_size()) == (8, 32)


def test_whoever_made_them_they_are_a_pair() -> None:
    """sglang#27679: the parts are injected, and asked for no more than their protocol."""
    full, swa = VendorAllocator(16, 4), VendorAllocator(16, 4)
    pool = WindowPool()
    allocator = SWAPairAllocator(full_attn_allocator=full, swa_attn_allocator=swa, kvcache=pool)
    assert (allocator.full_attn_allocator, allocator.swa_attn_allocator) == (full, swa)
    assert pool.full_to_swa_index_mapping is allocator.full_to_swa_index_mapping
    assert tail(allocator, 0, 12, 4) == list(range(4, 16))
    assert numbers(pool.translate_loc_from_full_to_swa(slots(4, 13, -1, 0))) == [0, 5, -1, 0]
    allocator.free_swa_segment(torch.arange(4, 16), start_pos=0)
    assert swa.freed == [4]
    assert (allocator.available_size(), allocator.swa_available_size()) == (4, 16)
    assert decode(allocator, [13], [15]) == [16]
    assert allocator.swa_available_size() == 12


def test_parts_must_be_what_they_are_used_as() -> None:
    with pytest.raises(ValueError, match="page_size=4 of the full allocator and 1 of the window"):
        SWAPairAllocator(full_attn_allocator=paged(8), swa_attn_allocator=token(8), kvcache=None)
    only_slots: Any = type("OnlySlots", (VendorAllocator,), {"alloc_extend": None})(8, 4)
    nothing: Any = object()
    for part in (only_slots, nothing):
        with pytest.raises(CapabilityError, match="a full and window pair"):
            SWAPairAllocator(full_attn_allocator=paged(8), swa_attn_allocator=part, kvcache=None)


def test_the_mapping_has_an_entry_for_minus_one() -> None:
    allocator = pair(8, 8)
    table = allocator.full_to_swa_index_mapping
    assert (table.dtype, table.shape, int(table[-1])) == (torch.int64, (13,), -1)
    extend(allocator, [0], [4], [-1])
    asked = slots(-1, 5, 0, -7).view(2, 2)
    assert allocator.translate_loc_from_full_to_swa(asked).tolist() == [[-1, 5], [0, -1]]
    allocator.clear()
    assert mapping(allocator, 0, 13) == [0] * 12 + [-1]
    with pytest.raises(IndexError):
        allocator.translate_loc_from_full_to_swa(slots(13))


def test_what_continues_without_a_peer_has_none() -> None:
    """The reserved page never escapes: 0 + 1 is no peer."""
    allocator = pair(32, 32, strict=True)
    assert tail(allocator, 0, 6, 0) == [4, 5, 6, 7, 8, 9]
    assert decode(allocator, [7], [9]) == [10]
    assert mapping(allocator, 10, 11) == [0]
    assert extend(allocator, [7], [10], [10]) == [11, 12, 13]
    assert mapping(allocator, 11, 14) == [0, 4, 5]
    assert allocator.swa_available_size() == 28


def test_a_tail_keeps_its_place_on_the_page() -> None:
    """The window page of a full page is one page, whatever the tail's length."""
    allocator = pair(32, 32, strict=True)
    assert tail(allocator, 0, 7, 5) == list(range(4, 11))
    assert mapping(allocator, 4, 12) == [0, 0, 6, 7, 8, 9, 10, 0]
    allocator.free_swa_segment(slots(4, 5, 6, 7), start_pos=0)
    assert mapping(allocator, 4, 12) == [0, 0, 0, 0, 8, 9, 10, 0]
    assert window_free(allocator) == [1, *range(3, 9)]
    # From the middle of a page: on with its peer where there is one, on a new page where not.
    assert tail(allocator, 7, 9, 2, last=10) == [11, 12]
    assert mapping(allocator, 11, 13) == [11, 4]
    allocator.free_swa(slots(12))
    assert tail(allocator, 9, 11, 1, last=12) == [13, 14]
    assert mapping(allocator, 12, 16) == [0, 0, 6, 0]


def test_pages_of_one_token_work_alike() -> None:
    allocator = pair(8, 4, page_size=1)
    assert extend(allocator, [0], [2], [-1]) == [1, 2]
    assert tail(allocator, 2, 5, 1, last=2) == [3, 4, 5]
    assert decode(allocator, [6], [5]) == [6]
    assert mapping(allocator, 1, 7) == [1, 2, 0, 0, 3, 4]
    assert allocator.alloc(1) is None
    allocator.free_swa(slots(2, 3, 4))
    assert numbers(allocator.alloc(1)) == [7]
    assert mapping(allocator, 7, 8) == [2]
    allocator.free_segment(slots(1, 2, 3), start_pos=0)
    assert (allocator.full_available_size(), allocator.swa_available_size()) == (4, 1)


@pytest.mark.parametrize("page_size", [1, 4])
@pytest.mark.parametrize("told", [3, 5])
def test_the_host_lengths_must_agree_with_the_count(page_size: int, told: int) -> None:
    allocator = pair(16, 8, page_size)
    lens = (slots(0), slots(0), slots(4), slots(4), slots(-1))
    with pytest.raises(ValueError, match=f"extend_num_tokens={told}: the lengths say 4"):
        allocator.alloc_extend(*lens, told)
    with pytest.raises(ValueError, match=f"extend_num_tokens={told}: the lengths say 4"):
        allocator.alloc_extend_swa_tail(*lens, told, 2)
    assert (allocator.full_available_size(), allocator.swa_available_size()) == (16, 8)


def test_a_group_settles_peers_at_once() -> None:
    allocator = pair(16, 16)
    extend(allocator, [0], [8], [-1])
    mine = slots(4, 5)
    allocator.free_group_begin()
    allocator.free(mine)
    mine.fill_(8)
    assert mapping(allocator, 4, 12) == [0, 0, 0, 0, 8, 9, 10, 11]
    assert (allocator.full_available_size(), allocator.swa_available_size()) == (8, 8)
    allocator.free_group_end()
    assert (allocator.full_available_size(), allocator.swa_available_size()) == (12, 12)


def test_the_rest_of_the_full_side_goes_last() -> None:
    allocator = pair(16, 16)
    extend(allocator, [0], [10], [-1])
    allocator.free_swa_segment(torch.arange(4, 12), start_pos=0)
    allocator.free_full_segment(torch.arange(4, 12), start_pos=0)
    assert (allocator.full_available_size(), allocator.swa_available_size()) == (12, 12)
    allocator.free_full(slots(12, 13))
    assert (allocator.full_available_size(), allocator.swa_available_size()) == (16, 16)
    assert extend(allocator, [0], [8], [-1]) == [12, 13, 14, 15, 4, 5, 6, 7]
    allocator.free_segments([(slots(12, 13, 14, 15), 0), (slots(4), 4)])
    assert (allocator.full_available_size(), allocator.swa_available_size()) == (16, 16)


def test_a_second_full_free_raises_before_the_window_is_touched() -> None:
    allocator = pair(16, 16, strict=True)
    extend(allocator, [0], [8], [-1])
    allocator.free(slots(4))
    with pytest.raises(ValueError, match=r"pages \[1\] are not owned"):
        allocator.free(slots(8, 5))
    assert mapping(allocator, 8, 12) == [8, 9, 10, 11]
    assert (allocator.full_available_size(), allocator.swa_available_size()) == (12, 12)


@pytest.mark.parametrize("stranger", [0, 2, -1, -4, 20, 21, 24, 1 << 40])
def test_what_is_no_slot_frees_nothing(stranger: int) -> None:
    allocator = pair(16, 16)
    extend(allocator, [0], [16], [-1])
    allocator.free(slots(stranger))
    allocator.free_swa(slots(stranger))
    allocator.free_segment(slots(stranger), start_pos=0)
    allocator.free_swa_segment(slots(stranger), start_pos=4)
    assert (allocator.full_available_size(), allocator.swa_available_size()) == (0, 0)
    assert mapping(allocator, 0, 21) == [0, 0, 0, 0, *range(4, 20), -1]


def test_peers_can_be_handed_over() -> None:
    allocator = pair(16, 16)
    extend(allocator, [0], [8], [-1])
    allocator.free_swa(slots(4))
    allocator.set_full_to_swa_mapping(slots(4, 5, 6, 7), slots(8, 9, 10, 11))
    allocator.clear_full_to_swa_mapping(slots(8, 9, 10, 11))
    allocator.free_full(slots(8))
    assert mapping(allocator, 4, 12) == [8, 9, 10, 11, 0, 0, 0, 0]
    assert (allocator.full_available_size(), allocator.swa_available_size()) == (12, 12)
    allocator.free(slots(4))
    assert (allocator.full_available_size(), allocator.swa_available_size()) == (16, 16)


@pytest.mark.parametrize("swa_tail_len", [-1, 5])
def test_a_tail_is_part_of_one_request(swa_tail_len: int) -> None:
    allocator = pair(16, 16)
    with pytest.raises(ValueError, match=f"1 requests with swa_tail_len={swa_tail_len} of 4"):
        tail(allocator, 0, 4, swa_tail_len)
    two = slots(0, 0)
    with pytest.raises(ValueError, match="2 requests"):
        allocator.alloc_extend_swa_tail(two, two, two + 4, two + 4, two - 1, 8, 4)
    with pytest.raises(ValueError, match="start_pos=2"):
        allocator.free_swa_segment(slots(4), start_pos=2)
