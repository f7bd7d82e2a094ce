"""A model of window layers alone: one space, in which a slot goes with its peer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kvproto.protocols import (
    AllocatorRequest,
    Declined,
    MHALeafRequest,
    PagedAllocator,
    PureSWAAllocatorRequest,
    SWAAllocator,
    SWAPoolRequest,
    explain,
)
from kvproto.reference import PureSWAAllocator, SWAPool, TokenAllocator, build_reference_pool
from kvproto.reference.build_allocator import build_reference_allocator
from tests.reference.allocators import free_pages, numbers, slots, tail

pytestmark = pytest.mark.usefixtures("host_or_device")


def pure(size: int = 4, strict: bool = False, kvcache: object = None) -> PureSWAAllocator:
    return PureSWAAllocator(
        size_swa=size,
        page_size=1,
        dtype=torch.bfloat16,
        device="cpu",
        kvcache=kvcache,
        need_sort=False,
        strict=strict,
    )


def test_is_an_allocator_for_windows_and_none_of_pages() -> None:
    assert explain(PureSWAAllocator, SWAAllocator) == explain(pure(), SWAAllocator) == []
    assert not isinstance(pure(), PagedAllocator)


def test_a_request_builds_one() -> None:
    built = build_reference_allocator(PureSWAAllocatorRequest(size_swa=5, device="cpu"))
    assert isinstance(built, PureSWAAllocator)
    assert (built.size, built.page_size) == (5, 1)
    with pytest.raises(ValueError, match="size_swa=0: must be an integer of at least 1"):
        PureSWAAllocatorRequest(size_swa=0, device="cpu")


class Lender:
    """A platform's own allocator, of nothing but the protocol's members."""

    def __init__(self, slots: TokenAllocator) -> None:
        self._slots, self.size, self.page_size = slots, slots.size, slots.page_size
        self.freed: list[list[int] | None] = []

    def available_size(self) -> int:
        return self._slots.available_size()

    def alloc(self, need_size: int, /) -> torch.Tensor | None:
        return self._slots.alloc(need_size)

    def free(self, free_index: torch.Tensor, /) -> None:
        self.freed.append(numbers(free_index))
        self._slots.free(free_index)


def test_slots_are_the_platforms_where_it_lends_some() -> None:
    lenders: list[Any] = []

    def lend(request: AllocatorRequest) -> Any:
        slots = TokenAllocator(request.size, torch.int64, request.device, None, request.need_sort)
        lenders.append(Lender(slots))
        return lenders[-1]

    asked = PureSWAAllocatorRequest(size_swa=5, device="cpu")
    made = build_reference_allocator(asked, None, lend)
    assert isinstance(made, PureSWAAllocator)
    lent_by: Any = made.swa_attn_allocator
    assert lent_by is lenders[0]
    row = made.alloc(3)
    assert row is not None
    made.free_swa(torch.tensor([0, 2]))
    assert lent_by.freed == [[2]]
    assert numbers(made.translate_loc_from_full_to_swa(row)) == [1, 0, 3]
    none = build_reference_allocator(asked, None, lambda _request: Declined("no slots here"))
    assert none == Declined("the slots of a model of windows alone: no slots here")


def test_pages_are_refused_with_the_way_out() -> None:
    with pytest.raises(ValueError, match=r"page_size=64: .* with page_size=1; .*SWAPairAllocator"):
        PureSWAAllocator(64, 64, torch.bfloat16, "cpu", None, False)


def test_an_evicted_slot_is_lent_again_and_its_old_owner_frees_nothing() -> None:
    allocator = pure()
    row = allocator.alloc(4)
    assert numbers(row) == [1, 2, 3, 4]
    assert row is not None
    allocator.free_swa(row[:2])
    assert numbers(allocator.translate_loc_from_full_to_swa(row)) == [0, 0, 3, 4]
    assert numbers(allocator.alloc(2)) == [1, 2]
    allocator.free_full(row[:2])
    allocator.free_full_segment(row[:2], start_pos=0)
    assert free_pages(allocator.swa_attn_allocator) == []


def test_a_tail_alone_takes_slots() -> None:
    allocator = pure()
    assert tail(allocator, 0, 6, 2) == [0, 0, 0, 0, 1, 2]
    assert tail(allocator, 0, 3, 3) is None
    assert tail(allocator, 6, 8, 0, last=2) == [0, 0]
    allocator.free(slots(0, 0, 0, 0, 1, 2))
    assert allocator.available_size() == 4


@pytest.mark.parametrize(("new", "length"), [(2, 3), (2, -1)])
def test_a_tail_is_a_part_of_what_is_new(new: int, length: int) -> None:
    with pytest.raises(ValueError, match=r"1 requests with swa_tail_len=-?\d of 2 tokens"):
        tail(pure(), 0, new, length)


def test_strict_refuses_what_was_freed_before_and_changes_nothing() -> None:
    allocator = pure(strict=True)
    row = allocator.alloc(3)
    assert row is not None
    allocator.free_swa(row[:1])
    for again in (row[:1], row):
        with pytest.raises(ValueError, match=r"\[1\] are not owned"):
            allocator.free(again)
    assert numbers(allocator.translate_loc_from_full_to_swa(row)) == [0, 2, 3]
    allocator.free(torch.cat((slots(0), row[1:])))
    assert allocator.available_size() == 4


def test_a_group_holds_slots_back_but_no_peers() -> None:
    allocator = pure()
    row = allocator.alloc(2)
    assert row is not None
    allocator.free_group_begin()
    allocator.free_swa_segment(row, start_pos=0)
    assert allocator.swa_available_size() == allocator.full_available_size() == 2
    assert numbers(allocator.translate_loc_from_full_to_swa(row)) == [0, 0]
    allocator.free_group_end()
    assert allocator.available_size() == 4


def test_a_pool_of_window_layers_keeps_rows_at_the_lent_slots() -> None:
    full, window = (
        MHALeafRequest(
            size=4,
            page_size=1,
            dtype=torch.float32,
            head_num=1,
            head_dim=2,
            layer_num=layers,
            device="cpu",
        )
        for layers in (0, 1)
    )
    pool = build_reference_pool(
        SWAPoolRequest(
            full=full,
            window=window,
            full_attention_layer_ids=(),
            swa_attention_layer_ids=(7,),
        )
    )
    assert isinstance(pool, SWAPool)
    allocator = pure(kvcache=pool)
    allocator.alloc(2)
    lent = allocator.alloc(2)
    assert lent is not None
    rows = torch.tensor([[[1.0, 2.0]], [[3.0, 4.0]]])
    layer: Any = SimpleNamespace(layer_id=7)
    pool.set_kv_buffer(layer, lent, rows, rows)
    assert pool.swa_kv_pool.get_key_buffer(0).flatten(1).tolist() == [
        [0, 0], [0, 0], [0, 0], [1, 2], [3, 4],
    ]  # fmt: skip
