"""Page arithmetic of allocations against a plain-Python model."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from kvproto.kernels import (
    alloc_decode,
    alloc_decode_pair,
    alloc_extend,
    alloc_extend_pair,
    alloc_pages_pair,
)
from kvproto.kernels.alloc_on_host import decoded_slots, extended_slots
from kvproto.kernels.page_slots import page_slots, pages_of

pytestmark = pytest.mark.usefixtures("host_or_device")
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


def new_pages(requests: list[tuple[int, int]], page_size: int) -> int:
    return sum(-(-(p + e) // page_size) + (-p // page_size) for p, e in requests)


def last_loc(requests: list[tuple[int, int]], page_size: int) -> Tensor:
    last = [
        (1000 + i) * page_size + (prefix - 1) % page_size if prefix else -1
        for i, (prefix, _) in enumerate(requests)
    ]
    return torch.tensor(last, dtype=torch.int64)


@settings(deadline=None)
@given(REQUESTS, PAGE_SIZES, st.booleans())
def test_extend_follows_the_model(
    requests: list[tuple[int, int]], page_size: int, far: bool
) -> None:
    """`far` pages lie past 2**31 slots."""
    new = [(1 << 40) * far + 7 * n + 1 for n in range(new_pages(requests, page_size))]
    expected = [slot for slots in model(requests, page_size, new) for slot in slots]
    prefix = torch.tensor([p for p, _ in requests], dtype=torch.int64)
    seq = torch.tensor([p + e for p, e in requests], dtype=torch.int64)
    pages = torch.tensor(new, dtype=torch.int64)
    found = alloc_extend(
        prefix, seq, last_loc(requests, page_size), pages, page_size, len(expected)
    )
    assert found.dtype == torch.int64
    assert found.tolist() == expected
    last = last_loc(requests, page_size)
    arrays = prefix.numpy(), seq.numpy(), last.numpy(), pages.numpy()
    assert extended_slots(*arrays, page_size).tolist() == expected


@settings(deadline=None)
@given(st.lists(st.integers(0, 40), max_size=8), PAGE_SIZES, st.booleans())
def test_decode_follows_the_model(prefixes: list[int], page_size: int, far: bool) -> None:
    requests = [(prefix, 1) for prefix in prefixes]
    new = [(1 << 40) * far + 5 * n + 2 for n in range(sum(p % page_size == 0 for p in prefixes))]
    expected = [slot for slots in model(requests, page_size, new) for slot in slots]
    seq = torch.tensor([p + 1 for p in prefixes], dtype=torch.int64)
    pages = torch.tensor(new, dtype=torch.int64)
    last = last_loc(requests, page_size)
    found = alloc_decode(seq, last, pages, page_size)
    assert found.dtype == torch.int64
    assert found.tolist() == expected
    begins = ((seq - 1) % page_size == 0).nonzero().flatten()
    arrays = last.numpy(), begins.numpy(), pages.numpy()
    assert decoded_slots(*arrays, page_size).tolist() == expected


def test_without_a_page_what_begins_one_is_on_the_reserved_slot() -> None:
    none = torch.empty(0, dtype=torch.int64)
    seq, last = torch.tensor([5, 6, 5]), torch.tensor([7, 12, 15])
    assert alloc_decode(seq, last, none, 4).tolist() == [0, 13, 0]


@given(st.lists(st.integers(-(1 << 40), 1 << 40)), PAGE_SIZES)
def test_pages_and_their_slots(slots: list[int], page_size: int) -> None:
    given_slots = torch.tensor(slots, dtype=torch.int64)
    pages = pages_of(given_slots, page_size)
    assert pages.tolist() == [slot // page_size for slot in slots]
    assert slots == [] or pages.data_ptr() != given_slots.data_ptr()
    on_them = [page * page_size + offset for page in pages.tolist() for offset in range(page_size)]
    assert page_slots(pages, torch.arange(page_size)).tolist() == on_them
    assert pages_of(torch.tensor([-1, 7], dtype=torch.int32), 4).tolist() == [-1, 1]


def table_of(requests: list[tuple[int, int]], page_size: int, pages: int) -> Tensor:
    """Pages `1000 + i` of every second request have peers on `2000 + i`; -1 at the end."""
    table = torch.zeros(pages * page_size + 1, dtype=torch.int64)
    table[-1] = -1
    offsets = torch.arange(page_size)
    for i in range(0, len(requests), 2):
        table[(1000 + i) * page_size + offsets] = (2000 + i) * page_size + offsets
    return table


def paired(requests: list[tuple[int, int]], page_size: int, new: list[int]) -> dict[int, int]:
    """The peer of each new slot, where new page `p` has its peer on page `3 * p + 1`."""
    found: dict[int, int] = {}
    for i, slots in enumerate(model(requests, page_size, new)):
        for slot in slots:
            page, offset = divmod(slot, page_size)
            if page == 1000 + i:
                found[slot] = (2000 + i) * page_size + offset if i % 2 == 0 else 0
            else:
                found[slot] = (3 * page + 1) * page_size + offset
    return found


@settings(deadline=None)
@given(REQUESTS, PAGE_SIZES)
def test_extending_two_spaces_follows_the_model(
    requests: list[tuple[int, int]], page_size: int
) -> None:
    new = [3 * n + 1 for n in range(new_pages(requests, page_size))]
    expected = [slot for slots in model(requests, page_size, new) for slot in slots]
    prefix = torch.tensor([p for p, _ in requests], dtype=torch.int64)
    seq = torch.tensor([p + e for p, e in requests], dtype=torch.int64)
    pages = torch.tensor(new, dtype=torch.int64)
    table = table_of(requests, page_size, 1100)
    peers = table.clone()
    for slot, peer in paired(requests, page_size, new).items():
        table[slot] = peer
    last = last_loc(requests, page_size)
    rest = (pages, 3 * pages + 1, peers, page_size, len(expected))
    assert alloc_extend_pair(prefix, seq, last, *rest).tolist() == expected
    assert torch.equal(peers, table)


@settings(deadline=None)
@given(st.lists(st.integers(0, 40), max_size=8), PAGE_SIZES)
def test_decoding_in_two_spaces_follows_the_model(prefixes: list[int], page_size: int) -> None:
    requests = [(prefix, 1) for prefix in prefixes]
    new = [5 * n + 2 for n in range(sum(p % page_size == 0 for p in prefixes))]
    expected = [slot for slots in model(requests, page_size, new) for slot in slots]
    seq = torch.tensor([p + 1 for p in prefixes], dtype=torch.int64)
    pages = torch.tensor(new, dtype=torch.int64)
    table = table_of(requests, page_size, 1100)
    peers = table.clone()
    for slot, peer in paired(requests, page_size, new).items():
        table[slot] = peer
    last = last_loc(requests, page_size)
    found = alloc_decode_pair(seq, last, pages, 3 * pages + 1, peers, page_size)
    assert found.tolist() == expected
    assert torch.equal(peers, table)


@given(st.lists(st.integers(1, 90), unique=True, max_size=20), PAGE_SIZES)
def test_pages_of_two_spaces_are_paired_slot_by_slot(new: list[int], page_size: int) -> None:
    pages, peers = torch.tensor(new, dtype=torch.int64), torch.zeros(91 * page_size + 1).long()
    other = torch.where(pages % 3 == 0, 0, pages + 7)
    slots = alloc_pages_pair(pages, other, peers, page_size)
    assert slots.tolist() == [p * page_size + at for p in new for at in range(page_size)]
    found = {
        page * page_size + at: (page + 7) * page_size + at
        for page in new
        if page % 3
        for at in range(page_size)
    }
    assert {at: peer for at, peer in enumerate(peers.tolist()) if peer} == found


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_many_requests_of_any_dtype_and_strides(dtype: torch.dtype) -> None:
    """More than a program has at a time, as columns of a table of two."""
    extending = [(7 * i % 40, i % 3) for i in range(200)]
    decoding, page = [(7 * i % 40, 1) for i in range(1100)], 16
    for requests in (extending, decoding):
        pages = list(range(1, 1 + new_pages(requests, page)))
        expected = [slot for slots in model(requests, page, pages) for slot in slots]
        lens = torch.tensor([(p, p + e) for p, e in requests]).to(dtype)
        last, new = last_loc(requests, page).to(dtype), torch.tensor(pages)
        if requests is extending:
            found = alloc_extend(lens[:, 0], lens[:, 1], last, new, page, len(expected))
        else:
            found = alloc_decode(lens[:, 1], last, new, page)
        assert found.tolist() == expected
