"""What is promised to be fixed-shape depends on no value, and on no earlier free.

sglang#36751: a boolean filter or a `unique` makes the host wait for the forward pass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kvproto.kernels.alloc_decode import alloc_decode
from kvproto.kernels.alloc_extend import alloc_extend
from kvproto.reference import slot_allocator
from kvproto.reference.device_pages import DevicePages
from tests.reference.allocators import free_pages, paged, pair, slots, tail, token

DEPENDS_ON_VALUES = (
    "aten.nonzero", "aten._unique2", "aten.unique_consecutive", "aten.unique_dim",
    "aten.masked_select", "aten._local_scalar_dense", "aten.equal", "aten.is_nonzero",
)  # fmt: skip


@pytest.fixture(autouse=True)
def on_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """What allocators of a device do, on the CPU: there is nothing to wait for in host memory."""
    monkeypatch.setattr(slot_allocator, "has_numpy", False)


class FixedShape(TorchDispatchMode):
    """Raises where a shape or the host would depend on a tensor's values."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(func)
        if name.startswith(DEPENDS_ON_VALUES):
            raise AssertionError(f"{name} depends on values")
        indices = args[1] if name.startswith(("aten.index.", "aten.index_put")) else ()
        if any(index is not None and index.dtype == torch.bool for index in indices):
            raise AssertionError(f"{name} is given a mask")
        return func(*args, **(kwargs or {}))


def frees_a_segment(allocator: Any) -> None:
    row = torch.arange(4, 12)
    for _ in range(2):
        allocator.free_segment(row, start_pos=0)
    allocator.free_segments([(row[:4], 0), (row[4:7], 4)])


def frees_a_window_segment(allocator: Any) -> None:
    allocator.free_swa_segment(torch.arange(4, 16), start_pos=0)
    allocator.free_full_segment(torch.arange(4, 16), start_pos=0)
    allocator.free_segment(torch.arange(4, 16), start_pos=0)


def frees_in_a_group(allocator: Any) -> None:
    allocator.free_group_begin()
    frees_a_segment(allocator)
    allocator.free_group_end()


def lent_pages() -> Any:
    allocator = paged(16)
    allocator.alloc(16)
    return allocator


def lent_sorted_pages() -> Any:
    allocator = paged(16, need_sort=True)
    allocator.alloc(16)
    return allocator


def lent_tokens() -> Any:
    allocator = token(16)
    allocator.alloc(16)
    return allocator


def lent_pair() -> Any:
    allocator = pair(16, 16)
    tail(allocator, 0, 12, 4)
    return allocator


@pytest.mark.parametrize(
    ("lent", "frees"),
    [
        (lent_pages, frees_a_segment),
        (lent_sorted_pages, frees_a_segment),
        (lent_pages, frees_in_a_group),
        (lent_tokens, frees_in_a_group),
        (lent_pair, frees_a_window_segment),
        (lent_pair, frees_in_a_group),
    ],
)
def test_segments_are_freed_without_looking(
    lent: Callable[[], Any], frees: Callable[[Any], None]
) -> None:
    allocator = lent()
    before = allocator.available_size()
    with FixedShape():
        frees(allocator)
    assert before < allocator.available_size() <= allocator.size


def test_page_arithmetic_looks_at_nothing() -> None:
    prefix, seq, last, pages = slots(0, 3), slots(5, 6), slots(-1, 6), slots(2, 3, 4)
    with FixedShape():
        extended = alloc_extend(prefix, seq, last, pages, 4, 8)
        decoded = alloc_decode(seq + 1, slots(12, 17), pages[:0], 4)
    assert extended.tolist() == [8, 9, 10, 11, 12, 7, 16, 17]
    assert decoded.tolist() == [13, 18]


def test_translation_looks_at_nothing() -> None:
    allocator = lent_pair()
    with FixedShape():
        found = allocator.translate_loc_from_full_to_swa(slots(-1, 0, 4, 13))
    assert found.tolist() == [-1, 0, 0, 5]


def test_the_mode_catches_a_filter() -> None:
    loc = slots(0, 3)
    for filters in (lambda: loc[loc > 0], lambda: torch.unique(loc), lambda: int(loc[1])):
        with pytest.raises(AssertionError), FixedShape():
            filters()


def test_an_early_count_changes_no_account() -> None:
    """On a device `take` does not wait for what it does not need; the accounts are the same."""
    for eager in (False, True):
        allocator = paged(32)
        assert isinstance(allocator._free, DevicePages)
        allocator._free._eager = eager
        first = allocator.alloc(16)
        assert first is not None
        allocator.free_segment(first, start_pos=0)
        allocator.free_segment(first, start_pos=0)
        second, third = allocator.alloc(16), allocator.alloc(16)
        assert second is not None
        assert third is not None
        assert sorted([*second.tolist(), *third.tolist()]) == list(range(4, 36))
        assert free_pages(allocator) == []
