"""One space of window slots against the model: windows slide, and only tails are asked for."""

from __future__ import annotations

from typing import ClassVar, cast

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from ..account_bench import slots
from ..window_bench import PureBench
from .page_model import Request, require_equal
from .slots_machine import SlotsMachine

__all__ = ["PureMachine"]


class PureMachine(SlotsMachine):
    """`SlotsMachine`, with the doors of the window side; a slot's peer is the slot."""

    RULES: ClassVar = SlotsMachine.RULES - frozenset({
        "extend", "extend too much", "decode", "decode too much",
    }) | frozenset({"tail", "tail too much", "evict", "free full"})  # fmt: skip

    @property
    def pure(self) -> PureBench:
        """The bench, which is one for a single space of window slots."""
        return cast("PureBench", self.bench)

    @rule(new=st.integers(0, 12), part=st.integers(0, 12))
    def tail(self, new: int, part: int) -> None:
        """A prompt of which only the end is kept."""
        length = min(new, part)
        fits = length <= len(self.space.free)
        self.ran["tail" if fits else "tail too much"] += 1
        given = self.pure.tail([], new, length)
        self.calls.append(f"{self.pure.tail_call([], new, length)} -> {given}")
        self._require_fit(given, fits)
        if given is None:
            return
        before, lent = given[: new - length], given[new - length :]
        require_equal("before the tail", expected=[0] * len(before), got=before)
        self.space.take(lent)
        self.requests += [Request(lent)] if lent else []

    @precondition(lambda self: self.requests)
    @rule(data=st.data(), count=st.integers(1, 3), as_set=st.booleans())
    def evict(self, data: st.DataObject, count: int, as_set: bool) -> None:
        """A request's first tokens leave its window; their full side is freed after others came."""
        self.ran["evict"] += 1
        request = self._drop(data)
        gone, rest = request.slots[:count], request.slots[count:]
        self.requests += [Request(rest)] if rest else []
        pool, mine = self.bench.pool, slots(gone)
        self.calls.append(f"{'free_swa' if as_set else 'free_swa_segment'}({gone})")
        pool.free_swa(mine) if as_set else pool.free_swa_segment(mine, start_pos=0)
        mine.fill_(1)
        self.space.give_back(gone)

    @rule(data=st.data(), as_set=st.booleans())
    def free_full(self, data: st.DataObject, as_set: bool) -> None:
        """Whatever slots these are by now, none is freed."""
        self.ran["free full"] += 1
        some = data.draw(st.lists(st.integers(1, self.space.pages), max_size=3))
        self.calls.append(f"{'free_full' if as_set else 'free_full_segment'}({some})")
        pool, mine = self.bench.pool, slots(some)
        pool.free_full(mine) if as_set else pool.free_full_segment(mine, start_pos=0)

    @invariant()
    def owned_slots_are_their_own_peers(self) -> None:
        """And what nobody owns has none."""
        if hasattr(self, "space"):
            owned = self.space.owned
            peers = [slot if slot in owned else 0 for slot in self.bench.lendable]
            require_equal("peers of all slots", expected=peers, got=self.bench.all_peers())
