"""Page arithmetic of allocations against a plain-Python model."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from kvproto.kernels.alloc_decode import alloc_decode
from kvproto.kernels.alloc_extend import alloc_extend
from kvproto.kernels.page_slots import page_slots, pages_of

PAGE_SIZES = st.sampled_from((1, 3, 4, 16))
REQUESTS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=6)


def model(requests: list[tuple[int, int]], page_size: int, new: list[int]) -> list[list[int]]:
    """Token by token: the slots of every request, where request `i` ends on page `1000 + i`."""
    fresh, found = iter(new), []
    for i, (prefix, extend) in enumerate(requests):
        page, slots = 1000 + i, []
        for token in range(prefix, prefix + extend):
            if token % page_size == 0:
                page = next(fresh)
            slots.append(page * page_size + token % page_size)
        found.append(slots)
    return found


def last_loc(requests: list[tuple[int, int]], page_size: int) -> Tensor:
    last = [
        (1000 + i) * page_size + (prefix - 1) % page_size if prefix else -1
        for i, (prefix, _) in enumerate(requests)
    ]
    return torch.tensor(last, dtype=torch.int64)


@settings(deadline=None, max_examples=200)
@given(REQUESTS, PAGE_SIZES, st.booleans())
def test_extend_follows_the_model(
    requests: list[tuple[int, int]], page_size: int, far: bool
) -> None:
    """`far` pages lie past 2**31 slots."""
    need = sum(-(-(p + e) // page_size) + (-p // page_size) for p, e in requests)
    new = [(1 << 40) * far + 7 * n + 1 for n in range(need)]
    expected = [slot for slots in model(requests, page_size, new) for slot in slots]
    prefix = torch.tensor([p for p, _ in requests], dtype=torch.int64)
    seq = torch.tensor([p + e for p, e in requests], dtype=torch.int64)
    pages = torch.tensor(new, dtype=torch.int64)
    found = alloc_extend(
        prefix, seq, last_loc(requests, page_size), pages, page_size, len(expected)
    )
    assert found.dtype == torch.int64
    assert found.tolist() == expected


@settings(deadline=None, max_examples=200)
@given(st.lists(st.integers(0, 40), max_size=8), PAGE_SIZES, st.booleans())
def test_decode_follows_the_model(prefixes: list[int], page_size: int, far: bool) -> None:
    requests = [(prefix, 1) for prefix in prefixes]
    new = [(1 << 40) * far + 5 * n + 2 for n in range(sum(p % page_size == 0 for p in prefixes))]
    expected = [slot for slots in model(requests, page_size, new) for slot in slots]
    seq = torch.tensor([p + 1 for p in prefixes], dtype=torch.int64)
    pages = torch.tensor(new, dtype=torch.int64)
    found = alloc_decode(seq, last_loc(requests, page_size), pages, page_size)
    assert found.dtype == torch.int64
    assert found.tolist() == expected


@given(st.lists(st.integers(-(1 << 40), 1 << 40)), PAGE_SIZES)
def test_pages_and_their_slots(slots: list[int], page_size: int) -> None:
    given_slots = torch.tensor(slots, dtype=torch.int64)
    pages = pages_of(given_slots, page_size)
    assert pages.tolist() == [slot // page_size for slot in slots]
    assert slots == [] or pages.data_ptr() != given_slots.data_ptr()
    on_them = [page * page_size + offset for page in pages.tolist() for offset in range(page_size)]
    assert page_slots(pages, torch.arange(page_size)).tolist() == on_them
    assert pages_of(torch.tensor([-1, 7], dtype=torch.int32), 4).tolist() == [-1, 1]
