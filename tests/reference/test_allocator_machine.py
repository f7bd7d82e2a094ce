"""Token and paged allocators against the kit's model, and whether every rule ran."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, run_state_machine_as_test

from kvproto.conformance.account_bench import AllocBench
from kvproto.conformance.models import SlotsMachine
from kvproto.protocols import AllocatorRequest
from tests.reference.allocators import free_pages, paged, token

pytestmark = pytest.mark.usefixtures("host_or_device")


def fresh(pages: int, page_size: int, need_sort: bool, strict: bool) -> AllocBench:
    """Page size 0 stands for the allocator without pages."""
    size = pages * max(page_size, 1)
    allocator = (
        paged(size, page_size, need_sort, strict) if page_size else token(size, need_sort, strict)
    )
    request = AllocatorRequest(
        kind="paged" if page_size else "token",
        size=size,
        page_size=max(page_size, 1),
        device="cpu",
        need_sort=need_sort,
    )
    return AllocBench(request, allocator)


class Slots(SlotsMachine):
    """With what only our allocators tell: their free lists, and whether they are strict."""

    subjects = st.builds(
        fresh,
        pages=st.integers(2, 9),
        page_size=st.sampled_from((0, 1, 3, 4)),
        need_sort=st.booleans(),
        strict=st.booleans(),
    )
    ran: ClassVar = Counter[str]()
    calls: ClassVar = list[str]()

    def check_refusal(self, strangers: bool, *, refused: bool) -> None:
        assert refused == (strangers and self.bench.pool.strict)

    @invariant()
    def free_lists_agree(self) -> None:
        if hasattr(self, "space"):
            assert free_pages(self.bench.pool) == sorted(self.space.free)


def test_slots_follow_the_model() -> None:
    Slots.ran.clear()
    run_state_machine_as_test(
        Slots,
        settings=settings(
            max_examples=150, stateful_step_count=40, deadline=None, derandomize=True
        ),
    )
    assert set(Slots.ran) == Slots.RULES
    assert min(Slots.ran.values()) >= 10, Slots.ran
