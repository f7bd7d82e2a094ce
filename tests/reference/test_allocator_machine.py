"""Token and paged allocators against a plain-Python model, and whether every rule ran."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.reference.allocators import decode, extend, free_pages, numbers, paged, slots, token
from tests.reference.page_model import Request, Space

RAN: Counter[str] = Counter()
RULES = {
    "alloc", "alloc too much", "extend", "extend too much", "decode", "decode too much", "free",
    "free shuffled", "free part of a page", "free again", "free stranger", "free segment",
    "free segments", "group", "clear",
}  # fmt: skip


class Slots(RuleBasedStateMachine):
    """Requests that grow, shrink and end; nothing that is freed twice is ever lent twice."""

    @initialize(
        pages=st.integers(2, 9),
        page_size=st.sampled_from((0, 1, 3, 4)),
        need_sort=st.booleans(),
        strict=st.booleans(),
    )
    def build(self, pages: int, page_size: int, need_sort: bool, strict: bool) -> None:
        """Page size 0 stands for the allocator without pages."""
        self.allocator: Any = (
            paged(pages * page_size, page_size, need_sort, strict)
            if page_size
            else token(pages, need_sort, strict)
        )
        self.size = max(page_size, 1)
        self.space = Space(pages, self.size)
        self.has_pages, self.strict = page_size > 0, strict
        self.requests: list[Request] = []

    @rule(pages=st.integers(0, 4))
    def alloc(self, pages: int) -> None:
        fits = pages <= len(self.space.free)
        RAN["alloc" if fits else "alloc too much"] += 1
        given = numbers(self.allocator.alloc(pages * self.size))
        assert (given is not None) == fits
        if given is not None:
            assert len(given) == pages * self.size
            self.space.take(self.space.continues([], given))
            self.requests += [Request(given)] if given else []

    @precondition(lambda self: self.has_pages)
    @rule(lens=st.lists(st.integers(0, 9), max_size=3), old=st.integers(0, 2))
    def extend(self, lens: list[int], old: int) -> None:
        batch = self.requests[:old][: len(lens)]
        batch += [Request() for _ in lens[len(batch) :]]
        prefix = [len(each.slots) for each in batch]
        seq = [before + more for before, more in zip(prefix, lens, strict=True)]
        need = sum(map(self.space.demand, prefix, seq))
        RAN["extend" if need <= len(self.space.free) else "extend too much"] += 1
        given = extend(self.allocator, prefix, seq, [each.last for each in batch])
        self._continue(batch, lens, need, given)

    @precondition(lambda self: self.has_pages and self.requests)
    @rule(count=st.integers(1, 4), steps=st.integers(1, 9))
    def decode(self, count: int, steps: int) -> None:
        for _ in range(steps):
            self._decode(self.requests[:count])

    def _decode(self, batch: list[Request]) -> None:
        seq = [len(each.slots) + 1 for each in batch]
        need = sum(self.space.demand(n - 1, n) for n in seq)
        RAN["decode" if need <= len(self.space.free) else "decode too much"] += 1
        given = decode(self.allocator, seq, [each.last for each in batch])
        self._continue(batch, [1] * len(batch), need, given)

    def _continue(
        self, batch: list[Request], lens: list[int], need: int, given: list[int] | None
    ) -> None:
        assert (given is not None) == (need <= len(self.space.free))
        if given is None:
            return
        fresh: list[int] = []
        for each, more in zip(batch, lens, strict=True):
            new, given = given[:more], given[more:]
            fresh += self.space.continues(each.slots, new)
            each.slots += new
            if each not in self.requests and each.slots:
                self.requests.append(each)
        assert given == []
        assert len(fresh) == need
        self.space.take(fresh)

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def free(self, data: st.DataObject) -> None:
        RAN["free"] += 1
        self._free(self._drop(data).slots)

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def free_shuffled(self, data: st.DataObject) -> None:
        RAN["free shuffled"] += 1
        self._free(data.draw(st.permutations(self._drop(data).slots)))

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def free_part_of_a_page(self, data: st.DataObject) -> None:
        RAN["free part of a page"] += 1
        request = self._drop(data)
        self._free(request.slots[-1:])
        self._free(request.slots)

    @precondition(lambda self: self.space.free | self.space.held)
    @rule(data=st.data())
    def free_again(self, data: st.DataObject) -> None:
        RAN["free again"] += 1
        page = data.draw(st.sampled_from(sorted(self.space.free | self.space.held)))
        self._free([page * self.size + data.draw(st.integers(0, self.size - 1))])

    @rule(data=st.data())
    def free_stranger(self, data: st.DataObject) -> None:
        RAN["free stranger"] += 1
        end = (self.space.pages + 1) * self.size
        self._free([data.draw(st.sampled_from((0, self.size - 1, -1, -self.size, end, end + 99)))])

    @precondition(lambda self: self.requests)
    @rule(data=st.data(), keep=st.integers(0, 2))
    def free_segment(self, data: st.DataObject, keep: int) -> None:
        """All but the first pages of a request; what is left is freed by a second segment."""
        RAN["free segment"] += 1
        row, start = self._drop(data).slots, keep * self.size
        for begin, end in ((start, len(row)), (0, min(start, len(row)))):
            mine = slots(*row[begin:end])
            with self._refused({slot // self.size for slot in row[begin:end]}):
                self.allocator.free_segment(mine, start_pos=begin)
            mine.fill_(self.size)

    @precondition(lambda self: self.requests)
    @rule(data=st.data(), middle=st.integers(1, 3))
    def free_segments(self, data: st.DataObject, middle: int) -> None:
        RAN["free segments"] += 1
        row = torch.tensor(self._drop(data).slots)
        cut = middle * self.size
        with self._refused({int(slot) // self.size for slot in row}):
            self.allocator.free_segments([(row[:cut], 0), (row[cut:], cut)])
        row.fill_(self.size)

    @rule()
    def group(self) -> None:
        RAN["group"] += 1
        if self.space.in_group:
            self.allocator.free_group_end()
            self.space.end_group()
        else:
            self.allocator.free_group_begin()
            self.space.in_group = True

    @rule(really=st.integers(0, 3))
    def clear(self, really: int) -> None:
        if really:
            return
        RAN["clear"] += 1
        self.allocator.clear()
        self.space.clear()
        self.requests = []

    def _drop(self, data: st.DataObject) -> Request:
        return self.requests.pop(data.draw(st.integers(0, len(self.requests) - 1)))

    def _free(self, given: list[int]) -> None:
        """In strict mode a page that is not owned raises, and then nothing is freed."""
        mine = slots(*given)
        with self._refused({slot // self.size for slot in given}):
            self.allocator.free(mine)
        mine.fill_(self.size)

    def _refused(self, pages: set[int]) -> Any:
        if self.strict and pages - self.space.owned:
            return pytest.raises(ValueError, match="not owned")
        self.space.give_back(pages)
        return nullcontext()

    @invariant()
    def accounts_agree(self) -> None:
        if not hasattr(self, "space"):
            return
        available = self.allocator.available_size()
        assert available == len(self.space.free) * self.size <= self.allocator.size
        assert free_pages(self.allocator) == sorted(self.space.free)
        owners = [slot // self.size for each in self.requests for slot in set(each.slots)]
        assert set(owners) <= self.space.owned
        every = [slot for each in self.requests for slot in each.slots]
        assert len(set(every)) == len(every)
        assert all(self.size <= slot < self.allocator.size + self.size for slot in every)


def test_slots_follow_the_model() -> None:
    RAN.clear()
    run_state_machine_as_test(
        Slots,
        settings=settings(
            max_examples=150, stateful_step_count=40, deadline=None, derandomize=True
        ),
    )
    assert set(RAN) == RULES
    assert min(RAN.values()) >= 10, RAN
