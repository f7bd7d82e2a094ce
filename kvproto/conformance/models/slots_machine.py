"""An allocator of one space against the model: requests that grow, shrink and end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import ClassVar

import torch
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from ..account_bench import REFUSALS, AllocBench, slots
from .page_model import Differs, Request, Space, require_equal

__all__ = ["SlotsMachine"]


class SlotsMachine(RuleBasedStateMachine):
    """Nothing that is freed twice is ever lent twice.

    A subclass sets `subjects`, which draws a fresh allocator on a bench, `ran`, the count of each
    rule, and `calls`, which holds the calls of the last run.
    """

    subjects: ClassVar[st.SearchStrategy[AllocBench]]
    ran: ClassVar[Counter[str]]
    calls: ClassVar[list[str]]
    RULES: ClassVar = frozenset({
        "alloc", "alloc too much", "take all", "extend", "extend too much", "decode",
        "decode too much", "free", "free shuffled", "free part of a page", "free again",
        "free stranger", "free segment", "free segments", "group", "clear",
    })  # fmt: skip

    bench: AllocBench

    @initialize(data=st.data())
    def build(self, data: st.DataObject) -> None:
        """A fresh allocator."""
        self.calls.clear()
        self.bench = data.draw(self.subjects)
        self.size = self.bench.page_size
        self.space = Space(self.bench.request.size // self.size, self.size)
        self.requests: list[Request] = []

    @rule(pages=st.integers(0, 4))
    def alloc(self, pages: int) -> None:
        """Whole pages."""
        fits = pages <= len(self.space.free)
        self.ran["alloc" if fits else "alloc too much"] += 1
        self._alloc(pages, fits)

    @rule(really=st.integers(0, 3))
    def take_all(self, really: int) -> None:
        """All that is available, as one request."""
        if really == 0 and self.space.free:
            self.ran["take all"] += 1
            self._alloc(len(self.space.free), True)

    def _alloc(self, pages: int, fits: bool) -> None:
        given = self.bench.alloc(pages * self.size)
        self.calls.append(f"alloc({pages * self.size}) -> {given}")
        self._require_fit(given, fits)
        if given:
            self.space.take(self.space.continues([], given))
            self.requests.append(Request(given))

    @precondition(lambda self: self.bench.paged)
    @rule(lens=st.lists(st.integers(0, 9), max_size=3), old=st.integers(0, 2))
    def extend(self, lens: list[int], old: int) -> None:
        """Some requests that are there, and new ones."""
        batch = self.requests[:old][: len(lens)]
        batch += [Request() for _ in lens[len(batch) :]]
        prefix = [len(each.slots) for each in batch]
        seq = [before + more for before, more in zip(prefix, lens, strict=True)]
        need = sum(map(self.space.demand, prefix, seq))
        self.ran["extend" if need <= len(self.space.free) else "extend too much"] += 1
        rows = [each.slots for each in batch]
        given = self.bench.extend(rows, lens)
        self.calls.append(f"{self.bench.extend_call(rows, lens)} -> {given}")
        self._continue(batch, lens, need, given)

    @precondition(lambda self: self.bench.paged and self.requests)
    @rule(count=st.integers(1, 4), steps=st.integers(1, 9))
    def decode(self, count: int, steps: int) -> None:
        """Several tokens of the same batch."""
        for _ in range(steps):
            batch = self.requests[:count]
            rows = [each.slots for each in batch]
            need = sum(self.space.demand(len(row), len(row) + 1) for row in rows)
            self.ran["decode" if need <= len(self.space.free) else "decode too much"] += 1
            given = self.bench.decode(rows)
            self.calls.append(f"{self.bench.decode_call(rows)} -> {given}")
            self._continue(batch, [1] * len(batch), need, given)

    def _continue(
        self, batch: Sequence[Request], lens: Sequence[int], need: int, given: list[int] | None
    ) -> None:
        self._require_fit(given, need <= len(self.space.free))
        if given is None:
            return
        fresh: list[int] = []
        for each, more in zip(batch, lens, strict=True):
            new, given = given[:more], given[more:]
            fresh += self.space.continues(each.slots, new)
            each.slots += new
            if each.slots and not any(each is known for known in self.requests):
                self.requests.append(each)
        self.space.take(fresh)

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def free(self, data: st.DataObject) -> None:
        """A whole request."""
        self.ran["free"] += 1
        self._free(self._drop(data).slots)

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def free_shuffled(self, data: st.DataObject) -> None:
        """In any order."""
        self.ran["free shuffled"] += 1
        self._free(data.draw(st.permutations(self._drop(data).slots)))

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def free_part_of_a_page(self, data: st.DataObject) -> None:
        """A token, which frees its page, and then the request."""
        self.ran["free part of a page"] += 1
        request = self._drop(data)
        self._free(request.slots[-1:])
        if not self._free(request.slots):
            self._free(request.slots[: (len(request.slots) - 1) // self.size * self.size])

    @precondition(lambda self: self.space.free | self.space.held)
    @rule(data=st.data())
    def free_again(self, data: st.DataObject) -> None:
        """A slot that nobody owns."""
        self.ran["free again"] += 1
        page = data.draw(st.sampled_from(sorted(self.space.free | self.space.held)))
        self._free([page * self.size + data.draw(st.integers(0, self.size - 1))])

    @rule(data=st.data())
    def free_stranger(self, data: st.DataObject) -> None:
        """A slot that nobody can own."""
        self.ran["free stranger"] += 1
        end = (self.space.pages + 1) * self.size
        self._free([data.draw(st.sampled_from((0, self.size - 1, -1, -self.size, end, end + 99)))])

    @precondition(lambda self: self.requests)
    @rule(data=st.data(), keep=st.integers(0, 2))
    def free_segment(self, data: st.DataObject, keep: int) -> None:
        """All but the first pages of a request, and then those."""
        self.ran["free segment"] += 1
        row, start = self._drop(data).slots, keep * self.size
        for begin, end in ((start, len(row)), (0, min(start, len(row)))):
            mine = slots(row[begin:end])

            def free(mine: torch.Tensor = mine, begin: int = begin) -> None:
                self.bench.pool.free_segment(mine, start_pos=begin)

            self._give_back(f"free_segment({row[begin:end]}, {begin})", free, row[begin:end])
            mine.fill_(self.size)

    @precondition(lambda self: self.requests)
    @rule(data=st.data(), middle=st.integers(1, 3))
    def free_segments(self, data: st.DataObject, middle: int) -> None:
        """A request in two pieces."""
        self.ran["free segments"] += 1
        given, cut = self._drop(data).slots, middle * self.size
        row = slots(given)
        self._give_back(
            f"free_segments([({given[:cut]}, 0), ({given[cut:]}, {cut})])",
            lambda: self.bench.pool.free_segments([(row[:cut], 0), (row[cut:], cut)]),
            given,
        )
        row.fill_(self.size)

    @rule()
    def group(self) -> None:
        """Begin one, or end it."""
        self.ran["group"] += 1
        if self.space.in_group:
            self.calls.append("free_group_end()")
            self.bench.pool.free_group_end()
            self.space.end_group()
        else:
            self.calls.append("free_group_begin()")
            self.bench.pool.free_group_begin()
            self.space.in_group = True

    @rule(really=st.integers(0, 3))
    def clear(self, really: int) -> None:
        """Start again, one time in four."""
        if really == 0:
            self.ran["clear"] += 1
            self.calls.append("clear()")
            self.bench.pool.clear()
            self.space.clear()
            self.requests = []

    def _drop(self, data: st.DataObject) -> Request:
        return self.requests.pop(data.draw(st.integers(0, len(self.requests) - 1)))

    def _free(self, given: Sequence[int]) -> bool:
        mine = slots(given)
        freed = self._give_back(f"free({list(given)})", lambda: self.bench.pool.free(mine), given)
        mine.fill_(self.size)
        return freed

    def _give_back(self, call: str, free: Callable[[], object], given: Sequence[int]) -> bool:
        """Were they freed? What holds a page that is not owned may be refused, as a whole."""
        pages = {slot // self.size for slot in given}
        strangers = pages - self.space.owned
        self.calls.append(call)
        try:
            free()
        except REFUSALS as error:
            self.calls[-1] += " refused"
            if not strangers:
                raise Differs("no exception", f"{type(error).__name__}: {error}") from error
            self.check_refusal(bool(strangers), refused=True)
            return False
        self.check_refusal(bool(strangers), refused=False)
        self.space.give_back(pages)
        return True

    def check_refusal(self, strangers: bool, *, refused: bool) -> None:
        """For subclasses that know whether their allocator refuses or ignores."""

    def _require_fit(self, given: object, fits: bool) -> None:
        if (given is not None) != fits:
            free = f"with {self.space.available} slots free"
            raise Differs(f"{'slots' if fits else 'None'}, {free}", str(given))

    @invariant()
    def accounts_agree(self) -> None:
        """What is available is what the model says, and every owner's slots are its own."""
        if not hasattr(self, "space"):
            return
        available = self.bench.pool.available_size()
        require_equal("available_size()", expected=self.space.available, got=available)
        every = [slot for each in self.requests for slot in each.slots]
        require_equal("distinct slots", expected=len(every), got=len(set(every)))
