"""A full and window pair against the model: requests whose window slides, and who is whose peer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from torch import Tensor

from ..account_bench import REFUSALS, slots
from ..pair_bench import PairBench
from .page_model import Differs, Request, Space, require_equal

__all__ = ["PairMachine"]


class PairMachine(RuleBasedStateMachine):
    """No window page has two owners, and none is lost, whatever is freed first.

    A subclass sets `subjects`, which draws a fresh allocator on a bench, `ran`, the count of each
    rule, and `calls`, which holds the calls of the last run.
    """

    subjects: ClassVar[st.SearchStrategy[PairBench]]
    ran: ClassVar[Counter[str]]
    calls: ClassVar[list[str]]
    RULES: ClassVar = frozenset({
        "alloc", "alloc too much", "extend", "extend too much", "decode", "decode too much", "tail",
        "tail too much", "tail of 0", "evict set", "evict segment", "free", "free after eviction",
        "free segments", "free again", "group", "clear", "stale mapping",
    })  # fmt: skip

    bench: PairBench

    @initialize(data=st.data())
    def build(self, data: st.DataObject) -> None:
        """A fresh allocator."""
        self.calls.clear()
        self.bench = data.draw(self.subjects)
        asked = self.bench.asked
        self.size = asked.page_size
        self.full = Space(asked.size // self.size, self.size)
        self.window = Space(asked.size_swa // self.size, self.size)
        self.peers: dict[int, int] = {}
        self.requests: list[Request] = []

    @rule(pages=st.integers(0, 3))
    def alloc(self, pages: int) -> None:
        """Whole pages."""
        fits = self._fit(pages)
        self.ran["alloc" if fits else "alloc too much"] += 1
        given = self.bench.alloc(pages * self.size)
        self._told(f"alloc({pages * self.size})", given, fits)
        if given:
            self._grow(Request(), given, len(given))

    @rule(lens=st.lists(st.integers(0, 9), max_size=3), old=st.integers(0, 2))
    def extend(self, lens: list[int], old: int) -> None:
        """Some requests that are there, and new ones."""
        batch = self.requests[:old][: len(lens)]
        batch += [Request() for _ in lens[len(batch) :]]
        rows = [each.slots for each in batch]
        demand = self.full.demand
        fits = self._fit(
            sum(demand(len(row), len(row) + n) for row, n in zip(rows, lens, strict=True))
        )
        self.ran["extend" if fits else "extend too much"] += 1
        given = self.bench.extend(rows, lens)
        self._told(self.bench.extend_call(rows, lens), given, fits)
        for each, more in zip(batch, lens, strict=True) if given is not None else ():
            new, given = (given or [])[:more], (given or [])[more:]
            self._grow(each, new, more)

    @precondition(lambda self: self.requests)
    @rule(count=st.integers(1, 4), steps=st.integers(1, 4))
    def decode(self, count: int, steps: int) -> None:
        """Several tokens of the same batch."""
        for _ in range(steps):
            batch = self.requests[:count]
            rows = [each.slots for each in batch]
            fits = self._fit(sum(self.full.demand(len(row), len(row) + 1) for row in rows))
            self.ran["decode" if fits else "decode too much"] += 1
            given = self.bench.decode(rows)
            self._told(self.bench.decode_call(rows), given, fits)
            for each, slot in zip(batch, given or (), strict=given is not None):
                self._grow(each, [slot], 1)

    @rule(new=st.integers(0, 12), part=st.integers(0, 12), go_on=st.booleans())
    def tail(self, new: int, part: int, go_on: bool) -> None:
        """A prompt of which only the end has peers."""
        length = min(new, part)
        request = self.requests[0] if go_on and self.requests else Request()
        prefix, seq = len(request.slots), len(request.slots) + new
        need = self._window_demand(request, seq - length, seq) if length else 0
        fits = need <= len(self.window.free)
        fits &= self.full.demand(prefix, seq) <= len(self.full.free)
        self.ran["tail" if fits else "tail too much"] += 1
        self.ran["tail of 0"] += length == 0
        given = self.bench.tail(request.slots, new, length)
        self._told(self.bench.tail_call(request.slots, new, length), given, fits)
        if given is not None:
            self._grow(request, given, length, always=True)

    def _fit(self, pages: int) -> bool:
        return pages <= min(len(self.full.free), len(self.window.free))

    def _told(self, call: str, given: object, fits: bool) -> None:
        self.calls.append(f"{call} -> {given}")
        if (given is not None) != fits:
            free = f"with {self.full.available} full and {self.window.available} window slots free"
            raise Differs(f"{'slots' if fits else 'None'}, {free}", str(given))

    def _window_demand(self, request: Request, start: int, seq: int) -> int:
        first, prefix = start // self.size, len(request.slots)
        continued = prefix % self.size and first == prefix // self.size
        return -(-seq // self.size) - first - bool(continued and request.last in self.peers)

    def _grow(self, request: Request, new: list[int], length: int, always: bool = False) -> None:
        """Only the last `length` tokens have peers, which lie at the same place of one page.

        What continues on a page without one has none either, but for a tail.
        """
        self.full.take(self.full.continues(request.slots, new))
        fresh: list[int] = []
        for at, slot in enumerate(new):
            before = request.last
            request.slots.append(slot)
            mapped = at >= len(new) - length
            mapped &= always or slot % self.size == 0 or before in self.peers
            fresh += self._enter_peer(slot, mapped)
        self.window.take(fresh)
        if request.slots and not any(request is known for known in self.requests):
            self.requests.append(request)

    def _enter_peer(self, slot: int, mapped: bool) -> list[int]:
        """The window page of a peer, where it is the first on its page."""
        peer = self.bench.peers([slot])[0]
        if not mapped:
            self.peers.pop(slot, None)
            require_equal(f"peer of {slot}", expected=0, got=peer)
            return []
        require_equal(
            f"offset of the peer of {slot}", expected=slot % self.size, got=peer % self.size
        )
        on_page = {self.peers[s] // self.size for s in self.full.page(slot) if s in self.peers}
        self.peers[slot] = peer
        if not on_page:
            return [peer // self.size]
        require_equal(f"window page of {slot}", expected=on_page, got={peer // self.size})
        return []

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def evict_set(self, data: st.DataObject) -> None:
        """Some tokens' peers."""
        self.ran["evict set"] += 1
        row = data.draw(st.sampled_from(self.requests)).slots
        some = data.draw(st.lists(st.sampled_from(row), max_size=4))
        self._call("free_swa", some)
        self._unpair(some)

    @precondition(lambda self: self.requests)
    @rule(data=st.data(), first=st.integers(0, 2), pages=st.integers(1, 3))
    def evict_segment(self, data: st.DataObject, first: int, pages: int) -> None:
        """The peers of some pages of a request."""
        self.ran["evict segment"] += 1
        row, start = data.draw(st.sampled_from(self.requests)).slots, first * self.size
        some = row[start : start + pages * self.size]
        self._call("free_swa_segment", some, start)
        self._unpair(some)

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def free(self, data: st.DataObject) -> None:
        """A request, in any order."""
        self.ran["free"] += 1
        some = data.draw(st.permutations(self._drop(data).slots))
        self._call("free", some)
        self._gone(some)

    @precondition(lambda self: self.requests)
    @rule(data=st.data(), whole=st.booleans())
    def free_after_eviction(self, data: st.DataObject, whole: bool) -> None:
        """The window slots of a request, then its full ones."""
        self.ran["free after eviction"] += 1
        some = self._drop(data).slots
        self._call("free_swa_segment", some, 0)
        self._call("free_full_segment", some, 0) if whole else self._call("free_full", some)
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
        """Pages that are not owned, the reserved one and what is out of range among them."""
        self.ran["free again"] += 1
        pages = [-1, 0, self.full.pages + 1, *self.full.free, *self.full.held]
        again = [data.draw(st.sampled_from(pages)) * self.size]
        for how, start in (("free", None), ("free_segment", 0), ("free_swa_segment", 0)):
            try:
                self._call(how, again, start)
            except REFUSALS:
                self.calls[-1] += " refused"

    @precondition(lambda self: self.full.free)
    @rule(data=st.data(), stale=st.integers(1, 40))
    def stale_mapping(self, data: st.DataObject, stale: int) -> None:
        """What a free slot maps to does not matter to whoever is given it next."""
        table: object = getattr(self.bench.pool, "full_to_swa_index_mapping", None)
        if not isinstance(table, Tensor):
            return
        self.ran["stale mapping"] += 1
        page = data.draw(st.sampled_from(sorted(self.full.free)))
        place = slice(page * self.size, (page + 1) * self.size)
        self.calls.append(f"full_to_swa_index_mapping[{place.start}:{place.stop}] = {stale}")
        table[place] = stale
        new = self.full.available
        given = self.bench.tail([], new, 0)
        self._told(self.bench.tail_call([], new, 0), given, True)
        self._grow(Request(), given or [], 0, always=True)

    @rule()
    def group(self) -> None:
        """Begin one, or end it."""
        self.ran["group"] += 1
        if self.full.in_group:
            self._call("free_group_end")
            self.full.end_group()
            self.window.end_group()
        else:
            self._call("free_group_begin")
            self.full.in_group = self.window.in_group = True

    @rule(really=st.integers(0, 3))
    def clear(self, really: int) -> None:
        """Start again, one time in four."""
        if really == 0:
            self.ran["clear"] += 1
            self._call("clear")
            self.full.clear()
            self.window.clear()
            self.peers, self.requests = {}, []

    def _drop(self, data: st.DataObject) -> Request:
        return self.requests.pop(data.draw(st.integers(0, len(self.requests) - 1)))

    def _call(
        self, door: str, given: Sequence[int] | None = None, start_pos: int | None = None
    ) -> None:
        """Through a door that returns nothing; its tensor is overwritten at once."""
        shown = [] if given is None else [str(list(given))]
        shown += [] if start_pos is None else [f"start_pos={start_pos}"]
        self.calls.append(f"{door}({', '.join(shown)})")
        through: Callable[..., object] = getattr(self.bench.pool, door)
        options = {} if start_pos is None else {"start_pos": start_pos}
        if given is None:
            through()
            return
        mine = slots(given)
        through(mine, **options)
        mine.fill_(self.size)

    def _unpair(self, some: Iterable[int]) -> None:
        for slot in some:
            for other in self.full.page(slot):
                if other in self.peers:
                    self.window.give_back({self.peers.pop(other) // self.size})

    def _gone(self, some: Sequence[int]) -> None:
        self._unpair(some)
        self.full.give_back({slot // self.size for slot in some})

    @invariant()
    def accounts_agree(self) -> None:
        """What is available in both spaces, and every owner's peers, are what the model says."""
        if not hasattr(self, "full"):
            return
        left = (self.full.available, self.window.available)
        pool = self.bench.pool
        require_equal(
            "full_available_size(), swa_available_size()", expected=left, got=self.bench.room()
        )
        require_equal("available_size()", expected=min(left), got=pool.available_size())
        owned = [slot for each in self.requests for slot in each.slots]
        peers = [self.peers.get(slot, 0) for slot in owned]
        require_equal("distinct slots", expected=len(owned), got=len(set(owned)))
        require_equal("peers of all that is owned", expected=peers, got=self.bench.peers(owned))
        windows = list(self.peers.values())
        require_equal("distinct window slots", expected=len(windows), got=len(set(windows)))
        owners = {peer // self.size for peer in windows}
        require_equal("window pages with an owner", expected=self.window.owned, got=owners)
