"""Ids and device slots against the model: tokens that move off the device, and buffers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from ..account_bench import REFUSALS, slots
from ..hisparse_bench import HiSparseBench
from .page_model import Differs, Request, Space, require_equal

__all__ = ["DeviceMachine"]


class DeviceMachine(RuleBasedStateMachine):
    """No device page has two owners, be they ids or buffers, and none is lost.

    A subclass sets `subjects`, `ran` and `calls`, as for `SlotsMachine`.
    """

    subjects: ClassVar[st.SearchStrategy[HiSparseBench]]
    ran: ClassVar[Counter[str]]
    calls: ClassVar[list[str]]
    RULES: ClassVar = frozenset({
        "alloc", "alloc too much", "extend", "extend too much", "logical", "logical too much",
        "decode", "decode too much", "buffer", "buffer too much", "free device", "free buffer",
        "free", "free segments", "free again", "group", "clear",
    })  # fmt: skip

    bench: HiSparseBench

    @initialize(data=st.data())
    def build(self, data: st.DataObject) -> None:
        """A fresh allocator."""
        self.calls.clear()
        self.bench = data.draw(self.subjects)
        asked = self.bench.asked
        self.size = asked.page_size
        self.ids = Space(asked.size_logical // self.size, self.size)
        self.device = Space(asked.size // self.size, self.size)
        self.places: dict[int, int] = {}
        self.requests: list[Request] = []
        self.buffers: list[list[int]] = []

    @rule(pages=st.integers(0, 3))
    def alloc(self, pages: int) -> None:
        """Whole pages of both."""
        fits = pages <= min(len(self.ids.free), len(self.device.free))
        self._count("alloc", fits)
        given = self.bench.alloc(pages * self.size)
        self._told(f"alloc({pages * self.size})", given, fits)
        if given:
            self._grow([Request()], [len(given)], given, placed=True)

    @rule(lens=st.lists(st.integers(0, 9), max_size=3), old=st.integers(0, 2))
    def extend(self, lens: list[int], old: int) -> None:
        """Some requests that are there, and new ones, with device slots."""
        batch, rows, need = self._batch(lens, old)
        fits = need <= min(len(self.ids.free), len(self.device.free))
        self._count("extend", fits)
        given = self.bench.extend(rows, lens)
        self._told(self.bench.extend_call(rows, lens), given, fits)
        self._grow(batch, lens, given, placed=True)

    @rule(lens=st.lists(st.integers(0, 9), max_size=3), old=st.integers(0, 2))
    def logical(self, lens: list[int], old: int) -> None:
        """The same without device slots."""
        batch, rows, need = self._batch(lens, old)
        fits = need <= len(self.ids.free)
        self._count("logical", fits)
        given = self.bench.logical(rows, lens)
        self._told(self.bench.logical_call(rows, lens), given, fits)
        self._grow(batch, lens, given, placed=False)

    @precondition(lambda self: self.requests)
    @rule(count=st.integers(1, 4), steps=st.integers(1, 4))
    def decode(self, count: int, steps: int) -> None:
        """Several tokens of the same batch, none of which has a device slot."""
        for _ in range(steps):
            batch = self.requests[:count]
            rows = [each.slots for each in batch]
            need = sum(self.ids.demand(len(row), len(row) + 1) for row in rows)
            fits = need <= len(self.ids.free)
            self._count("decode", fits)
            given = self.bench.decode(rows)
            self._told(self.bench.decode_call(rows), given, fits)
            self._grow(batch, [1] * len(batch), given, placed=False)

    @rule(data=st.data(), pages=st.integers(0, 4))
    def buffer(self, data: st.DataObject, pages: int) -> None:
        """A request's device pages become a buffer, which may need more; some have no token yet."""
        row = data.draw(st.sampled_from([Request(), *self.requests])).slots
        own = list(dict.fromkeys(self.places[i] // self.size for i in row if i in self.places))
        fits = pages - len(own) <= len(self.device.free)
        self._count("buffer", fits)
        need = pages * self.size
        given = self.bench.buffer(row, need)
        self._told(self.bench.buffer_call(row, need), given, fits)
        if given is None:
            return
        got = self.device.continues([], given)
        require_equal("own pages first", expected=own[:pages], got=got[: len(own[:pages])])
        self.device.take(got[len(own) :])
        for each in row:
            self.places.pop(each, None)
        self.device.give_back(own[pages:])
        self.buffers += [given] if given else []

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def free_device(self, data: st.DataObject) -> None:
        """Some ids lose their place, and whoever is on the same page."""
        self.ran["free device"] += 1
        row = data.draw(st.sampled_from(self.requests)).slots
        some = data.draw(st.lists(st.sampled_from(row), max_size=4))
        self._call("free_hisparse", some)
        self._displace(some)

    @precondition(lambda self: self.buffers)
    @rule(data=st.data())
    def free_buffer(self, data: st.DataObject) -> None:
        """A buffer, with slots of the reserved page among it."""
        self.ran["free buffer"] += 1
        given = self.buffers.pop(data.draw(st.integers(0, len(self.buffers) - 1)))
        self._call("free_hisparse_indices", [0, *given, -1])
        self.device.give_back({slot // self.size for slot in given})

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def free(self, data: st.DataObject) -> None:
        """A request, in any order."""
        self.ran["free"] += 1
        some = data.draw(st.permutations(self._drop(data).slots))
        self._call("free", some)
        self._gone(some)

    @precondition(lambda self: self.requests)
    @rule(data=st.data(), middle=st.integers(1, 3))
    def free_segments(self, data: st.DataObject, middle: int) -> None:
        """A request in two pieces."""
        self.ran["free segments"] += 1
        some, cut = self._drop(data).slots, middle * self.size
        self.calls.append(f"free_segments([({some[:cut]}, 0), ({some[cut:]}, {cut})])")
        self.bench.pool.free_segments([(slots(some[:cut]), 0), (slots(some[cut:]), cut)])
        self._gone(some)

    @rule(data=st.data())
    def free_again(self, data: st.DataObject) -> None:
        """Ids and device slots that nobody owns, or can own."""
        self.ran["free again"] += 1
        for door, space in (("free", self.ids), ("free_hisparse_indices", self.device)):
            pages = [-1, 0, space.pages + 1, *space.free, *space.held]
            try:
                self._call(door, [data.draw(st.sampled_from(pages)) * self.size])
            except REFUSALS:
                self.calls[-1] += " refused"

    @rule()
    def group(self) -> None:
        """Begin one, or end it."""
        self.ran["group"] += 1
        if self.ids.in_group:
            self._call("free_group_end")
            self.ids.end_group()
            self.device.end_group()
        else:
            self._call("free_group_begin")
            self.ids.in_group = self.device.in_group = True

    @rule(really=st.integers(0, 3))
    def clear(self, really: int) -> None:
        """Start again, one time in four."""
        if really == 0:
            self.ran["clear"] += 1
            self._call("clear")
            self.ids.clear()
            self.device.clear()
            self.places, self.requests, self.buffers = {}, [], []

    def _batch(self, lens: Sequence[int], old: int) -> tuple[list[Request], list[list[int]], int]:
        """Requests, their ids so far, and the new pages they need."""
        batch = self.requests[:old][: len(lens)]
        batch += [Request() for _ in lens[len(batch) :]]
        rows = [each.slots for each in batch]
        need = sum(
            self.ids.demand(len(row), len(row) + n) for row, n in zip(rows, lens, strict=True)
        )
        return batch, rows, need

    def _grow(
        self,
        batch: Sequence[Request],
        lens: Sequence[int],
        given: list[int] | None,
        *,
        placed: bool,
    ) -> None:
        """What continues on a page without a place has none either."""
        if given is None:
            return
        fresh_ids, fresh_pages = list[int](), list[int]()
        for each, more in zip(batch, lens, strict=True):
            new, given = given[:more], given[more:]
            fresh_ids += self.ids.continues(each.slots, new)
            for one in new:
                before = each.last
                each.slots.append(one)
                if placed and (one % self.size == 0 or before in self.places):
                    fresh_pages += self._enter(one, before)
            if each.slots and not any(each is known for known in self.requests):
                self.requests.append(each)
        self.ids.take(fresh_ids)
        self.device.take(fresh_pages)

    def _enter(self, one: int, before: int) -> list[int]:
        """The device page of an id, where it is the first on it."""
        slot = self.bench.device([one])[0]
        page, offset = divmod(slot, self.size)
        require_equal(f"offset of the slot of {one}", expected=one % self.size, got=offset)
        self.places[one] = slot
        if offset == 0:
            return [page]
        require_equal(f"slot of {one}", expected=self.places[before] + 1, got=slot)
        return []

    def _displace(self, some: Sequence[int]) -> None:
        for each in some:
            for other in self.ids.page(each):
                if other in self.places:
                    self.device.give_back({self.places.pop(other) // self.size})

    def _gone(self, some: Sequence[int]) -> None:
        self._displace(some)
        self.ids.give_back({each // self.size for each in some})

    def _drop(self, data: st.DataObject) -> Request:
        return self.requests.pop(data.draw(st.integers(0, len(self.requests) - 1)))

    def _count(self, name: str, fits: bool) -> None:
        self.ran[name if fits else f"{name} too much"] += 1

    def _told(self, call: str, given: object, fits: bool) -> None:
        self.calls.append(f"{call} -> {given}")
        if (given is not None) != fits:
            free = f"with {self.ids.available} ids and {self.device.available} device slots free"
            raise Differs(f"{'slots' if fits else 'None'}, {free}", str(given))

    def _call(self, door: str, given: Sequence[int] | None = None) -> None:
        """Through a door that returns nothing; its tensor is overwritten at once."""
        self.calls.append(f"{door}({'' if given is None else list(given)})")
        through = getattr(self.bench.pool, door)
        if given is None:
            through()
            return
        mine = slots(given)
        through(mine)
        mine.fill_(self.size)

    @invariant()
    def accounts_agree(self) -> None:
        """What is free of both, and where every id is, are what the model says."""
        if not hasattr(self, "ids"):
            return
        left = (self.ids.available, self.device.available)
        require_equal("free ids and device slots", expected=left, got=self.bench.room())
        available = self.bench.pool.available_size()
        require_equal("available_size()", expected=min(left), got=available)
        every = list(self.bench.lendable)
        places = [self.places.get(each, 0) for each in every]
        require_equal("device slots of all ids", expected=places, got=self.bench.device(every))
        owners = {slot // self.size for slot in self.places.values()}
        buffers = [slot // self.size for each in self.buffers for slot in each[:: self.size]]
        require_equal(
            "device pages of buffers, each once", expected=len(buffers), got=len(set(buffers))
        )
        require_equal("device pages of two owners", expected=set[int](), got=owners & set(buffers))
        require_equal(
            "device pages with an owner", expected=self.device.owned, got=owners | set(buffers)
        )
