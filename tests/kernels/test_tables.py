"""Accounts of pages, and entries of tables, against dictionaries and lists."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from kvproto.kernels.batch_slots import batch_slots
from kvproto.kernels.distinct_pages import distinct_pages
from kvproto.kernels.page_owners import NOT_OWNED, claim_pages, lend_pages, owned_pages
from kvproto.kernels.peer_table import drop_without_source, no_peers
from kvproto.kernels.pooled_slots import places_in_group, pooled_slots
from kvproto.kernels.sharded_pages import pages_by_owner
from kvproto.kernels.table_entries import set_entries, take_entries, without

PAGES = st.lists(st.integers(-3, 12), max_size=20)


def tensor(numbers: list[int]) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.int64)


@given(st.sets(st.integers(1, 9)), PAGES)
def test_a_page_is_claimed_once_and_only_by_who_owns_it(lent: set[int], claims: list[int]) -> None:
    owners = torch.full((9 + 2,), NOT_OWNED, dtype=torch.int32)
    lend_pages(owners, tensor(sorted(lent)))
    assert owned_pages(owners, tensor(claims)).tolist() == [page in lent for page in claims]
    claimed = claim_pages(owners, tensor(claims))
    assert sorted(claimed[claimed > 0].tolist()) == sorted(lent & set(claims))
    assert all(got in (0, page) for got, page in zip(claimed.tolist(), claims, strict=True))
    left = [bool(each) for each in owned_pages(owners, torch.arange(1, 10))]
    assert left == [page in lent - set(claims) for page in range(1, 10)]


@given(PAGES)
def test_distinct_pages_keep_their_order(pages: list[int]) -> None:
    assert distinct_pages(tensor(pages)).tolist() == list(dict.fromkeys(pages))


@given(st.lists(st.integers(0, 50), max_size=20), st.integers(1, 4))
def test_each_owner_has_its_pages_where_they_stand(pages: list[int], owners: int) -> None:
    found = [each.tolist() for each in pages_by_owner(tensor(pages), owners)]
    assert found == [
        [page // owners if page % owners == owner else 0 for page in pages]
        for owner in range(owners)
    ]


@given(PAGES)
def test_entries_are_taken_once(rows: list[int]) -> None:
    table = torch.zeros(10, dtype=torch.int32)
    set_entries(table, torch.arange(1, 10), tensor([10 * row for row in range(1, 10)]))
    inside = [row if 0 <= row < 10 else 0 for row in rows]
    assert take_entries(table, tensor(rows)).tolist() == [10 * row for row in inside]
    assert table.tolist() == [0 if row in inside else 10 * row for row in range(10)]


@given(PAGES, PAGES)
def test_slots_among_others_are_0(slots: list[int], others: list[int]) -> None:
    found = without(tensor(slots), tensor(others)).tolist()
    assert found == [0 if slot in others else slot for slot in slots]


@given(st.lists(st.integers(-3, 40), max_size=12), st.integers(2, 5))
def test_the_last_of_a_group_has_its_key(loc: list[int], group: int) -> None:
    expected = [at // group if at > 0 and at % group == group - 1 else 0 for at in loc]
    assert pooled_slots(tensor(loc), group).tolist() == expected
    assert places_in_group(tensor(loc), group).tolist() == [at % group for at in loc]


@given(st.lists(st.tuples(st.integers(-2, 9), st.integers(-2, 9)), max_size=12))
def test_locations_without_a_peer(pairs: list[tuple[int, int]]) -> None:
    targets, sources = (tensor([pair[side] for pair in pairs]) for side in (0, 1))
    kept = [target if source > 0 else 0 for target, source in pairs]
    assert drop_without_source(targets, sources).tolist() == kept
    assert no_peers(targets).tolist() == [min(0, max(-1, target)) for target, _ in pairs]


def test_slots_of_a_batch_are_padded_to_the_longest_that_is_known() -> None:
    table = torch.arange(1, 13, dtype=torch.int32).view(3, 4)
    rows, lens = torch.tensor([2, 0]), torch.tensor([1, 3])
    assert batch_slots(table, rows, lens).tolist() == [9, 0, 0, 1, 2, 3]
    assert batch_slots(table, rows[:0], lens[:0]).tolist() == []
