"""Full and window pairs against the kit's model, and whether every rule ran."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, run_state_machine_as_test

from kvproto.conformance.models import Differs, PairMachine, Space
from kvproto.conformance.pair_bench import PairBench
from kvproto.protocols import SWAAllocatorRequest
from tests.reference.allocators import free_pages, paged, pair

pytestmark = pytest.mark.usefixtures("host_or_device")


def fresh(pages: int, swa_pages: int, page_size: int, need_sort: bool) -> PairBench:
    sizes = pages * page_size, swa_pages * page_size
    request = SWAAllocatorRequest(
        size=sizes[0], size_swa=sizes[1], page_size=page_size, device="cpu", need_sort=need_sort
    )
    return PairBench(request, pair(*sizes, page_size, need_sort=need_sort))


class Pairs(PairMachine):
    """With what only our allocators tell: their free lists and the mapping of what is free."""

    subjects = st.builds(
        fresh,
        pages=st.integers(2, 9),
        swa_pages=st.integers(1, 6),
        page_size=st.sampled_from((1, 3, 4)),
        need_sort=st.booleans(),
    )
    ran: ClassVar = Counter[str]()
    calls: ClassVar = list[str]()

    @invariant()
    def lists_and_mapping_agree(self) -> None:
        if not hasattr(self, "full"):
            return
        made = self.bench.pool
        assert free_pages(made.full_attn_allocator) == sorted(self.full.free)
        assert free_pages(made.swa_attn_allocator) == sorted(self.window.free)
        table = made.full_to_swa_index_mapping.tolist()
        assert table[-1] == -1
        assert {slot: peer for slot, peer in enumerate(table[:-1]) if peer} == self.peers


def test_pairs_follow_the_model() -> None:
    Pairs.ran.clear()
    run_state_machine_as_test(
        Pairs,
        settings=settings(
            max_examples=120, stateful_step_count=40, deadline=None, derandomize=True
        ),
    )
    assert set(Pairs.ran) == Pairs.RULES
    assert min(Pairs.ran.values()) >= 10, Pairs.ran


def test_the_model_sees_a_page_lent_twice() -> None:
    """A model that accepts anything would prove nothing."""
    space = Space(2, 4)
    space.take([1])
    for pages in ([1], [2, 2], [3], [0]):
        with pytest.raises(Differs):
            space.take(pages)
    assert paged(8).available_size() == 8
