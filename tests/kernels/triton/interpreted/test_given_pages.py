"""Pages and tables of any strides, and fewer pages than a batch needs."""

from __future__ import annotations

import pytest
import torch

from kvproto.kernels import (
    alloc_decode,
    alloc_decode_pair,
    alloc_extend,
    alloc_extend_pair,
    alloc_pages_pair,
    paged_locations,
    peer_locations,
)
from kvproto.kernels.triton.alloc_extend import plan_alloc_extend
from kvproto.kernels.triton.launch import run

pytestmark = pytest.mark.usefixtures("served_on_cpu")
EVERY_SECOND = torch.arange(1, 9)[::2]
"""Pages 1, 3, 5 and 7: what is between them is other requests'."""

ONES, NONE = torch.ones(4, dtype=torch.int64), torch.full((4,), -1)


def test_pages_of_any_strides_are_lent() -> None:
    assert alloc_decode(ONES, NONE, EVERY_SECOND, 4).tolist() == [4, 12, 20, 28]
    found = alloc_extend(0 * ONES[:2], 4 * ONES[:2], NONE[:2], EVERY_SECOND[:2], 4, 8)
    assert found.tolist() == [4, 5, 6, 7, 12, 13, 14, 15]


def test_pages_of_any_strides_are_paired() -> None:
    other = torch.arange(11, 19)[::2]
    peers = torch.zeros(40, dtype=torch.int64)
    expected = {4: 44, 12: 52, 20: 60, 28: 68}
    assert alloc_decode_pair(ONES, NONE, EVERY_SECOND, other, peers, 4).tolist() == [*expected]
    assert {at: int(peers[at]) for at in peers.nonzero().flatten().tolist()} == expected
    peers.zero_()
    assert alloc_pages_pair(EVERY_SECOND[:2], other[:2], peers, 2).tolist() == [2, 3, 6, 7]
    assert peers[:8].tolist() == [0, 0, 22, 23, 0, 0, 26, 27]
    peers.zero_()
    alloc_extend_pair(
        0 * ONES[:2], 2 * ONES[:2], NONE[:2], EVERY_SECOND[:2], other[:2], peers, 2, 4
    )
    assert peers[:8].tolist() == [0, 0, 22, 23, 0, 0, 26, 27]


def test_more_requests_than_are_read_at_a_time_are_counted() -> None:
    """What earlier ones need is carried on, in prefills and in decodes."""
    n, page_size, dice = 2500, 16, torch.Generator().manual_seed(0)
    prefix = torch.randint(0, 90, (n,), generator=dice)
    seq = prefix + torch.randint(0, 90, (n,), generator=dice)
    empty = torch.empty(int((seq - prefix).sum()), dtype=torch.int64)
    summed, _ = plan_alloc_extend(prefix, seq, -ONES.repeat(n), empty, page_size, empty)
    run(summed)
    needed = torch.stack((seq - prefix, -(-seq // page_size) + (-prefix // page_size)))
    assert torch.equal(summed.arguments["before"], needed.cumsum(1) - needed)
    pages = torch.arange(1, n + 1)
    expected = torch.where(seq % page_size == 1, 0, prefix + 1)
    expected[seq % page_size == 1] = page_size * pages[: int((seq % page_size == 1).sum())]
    assert torch.equal(alloc_decode(seq, prefix, pages, page_size), expected)


def test_tables_of_any_strides_are_read() -> None:
    table = torch.arange(20)[::2]
    assert peer_locations(table, torch.tensor([1, 2, 3])).tolist() == [2, 4, 6]
    assert paged_locations(table, torch.tensor([4, 9, 12]), 4).tolist() == [8, 17, 24]


def test_a_table_that_is_written_must_be_dense() -> None:
    memory = torch.zeros(80, dtype=torch.int64)
    match = r"the table of peers has strides \(2,\); served are dense tables; nothing was written"
    with pytest.raises(ValueError, match="alloc_decode: " + match):
        alloc_decode_pair(ONES, NONE, EVERY_SECOND, EVERY_SECOND, memory[::2], 4)
    with pytest.raises(ValueError, match="alloc_pages_pair: " + match):
        alloc_pages_pair(EVERY_SECOND, EVERY_SECOND, memory[::2], 4)
    with pytest.raises(ValueError, match="alloc_extend: " + match):
        alloc_extend_pair(0 * ONES, ONES, NONE, EVERY_SECOND, EVERY_SECOND, memory[::2], 4, 4)
    assert not memory.any()


def test_every_page_has_one_of_the_second_space() -> None:
    peers = torch.zeros(80, dtype=torch.int64)
    with pytest.raises(ValueError, match=r"peer_pages have shape \(3,\), new_pages \(4,\)"):
        alloc_decode_pair(ONES, NONE, EVERY_SECOND, EVERY_SECOND[:3], peers, 4)
    assert not peers.any()


def test_what_begins_a_page_that_is_not_there_is_on_the_reserved_slot() -> None:
    """And not on the slot after its last one, which is on somebody else's page."""
    seq, last = torch.tensor([5, 6, 5, 5]), torch.tensor([7, 12, 15, 19])
    assert alloc_decode(seq, last, torch.tensor([9]), 4).tolist() == [36, 13, 0, 0]
    peers = torch.zeros(40, dtype=torch.int64)
    peers[7], peers[12], peers[15], peers[19] = 3, 40, 50, 60
    got = alloc_decode_pair(seq, last, torch.tensor([9]), torch.tensor([5]), peers, 4)
    assert got.tolist() == [36, 13, 0, 0]
    assert peers[[0, 8, 13, 16, 20, 36]].tolist() == [0, 0, 41, 0, 0, 20]
