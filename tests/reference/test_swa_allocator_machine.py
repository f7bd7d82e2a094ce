"""Full and window pairs against a plain-Python model, and whether every rule ran."""

from __future__ import annotations

from collections import Counter
from typing import Any

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

from tests.reference.allocators import (
    decode,
    extend,
    free_pages,
    numbers,
    paged,
    pair,
    slots,
    tail,
)
from tests.reference.page_model import Request, Space

RAN: Counter[str] = Counter()
RULES = {
    "alloc", "alloc too much", "extend", "extend too much", "decode", "decode too much", "tail",
    "tail too much", "tail of 0", "evict set", "evict segment", "free", "free after eviction",
    "free segment", "free again", "group", "clear", "stale mapping",
}  # fmt: skip


class Pairs(RuleBasedStateMachine):
    """Requests whose window slides, with a model of who is whose peer."""

    @initialize(
        pages=st.integers(2, 9),
        swa_pages=st.integers(1, 6),
        page_size=st.sampled_from((1, 3, 4)),
        need_sort=st.booleans(),
    )
    def build(self, pages: int, swa_pages: int, page_size: int, need_sort: bool) -> None:
        self.allocator = pair(
            pages * page_size, swa_pages * page_size, page_size, need_sort=need_sort
        )
        self.size = page_size
        self.full, self.window = Space(pages, page_size), Space(swa_pages, page_size)
        self.peers: dict[int, int] = {}
        self.requests: list[Request] = []

    @rule(pages=st.integers(0, 3))
    def alloc(self, pages: int) -> None:
        fits = pages <= min(len(self.full.free), len(self.window.free))
        RAN["alloc" if fits else "alloc too much"] += 1
        given = numbers(self.allocator.alloc(pages * self.size))
        assert (given is not None) == fits
        if given:
            request = Request()
            self._grow(request, given, len(given))
            self.requests.append(request)

    @rule(lens=st.lists(st.integers(0, 9), max_size=3), old=st.integers(0, 2))
    def extend(self, lens: list[int], old: int) -> None:
        batch = self.requests[:old][: len(lens)]
        batch += [Request() for _ in lens[len(batch) :]]
        prefix = [len(each.slots) for each in batch]
        seq = [before + more for before, more in zip(prefix, lens, strict=True)]
        need = sum(map(self.full.demand, prefix, seq))
        fits = need <= min(len(self.full.free), len(self.window.free))
        RAN["extend" if fits else "extend too much"] += 1
        given = extend(self.allocator, prefix, seq, [each.last for each in batch])
        assert (given is not None) == fits
        for each, more in zip(batch, lens, strict=True) if given is not None else ():
            new, given = (given or [])[:more], (given or [])[more:]
            self._grow(each, new, more)
            self.requests += [each] if each not in self.requests and each.slots else []

    @precondition(lambda self: self.requests)
    @rule(count=st.integers(1, 4))
    def decode(self, count: int) -> None:
        batch = self.requests[:count]
        seq = [len(each.slots) + 1 for each in batch]
        need = sum(self.full.demand(n - 1, n) for n in seq)
        fits = need <= min(len(self.full.free), len(self.window.free))
        RAN["decode" if fits else "decode too much"] += 1
        given = decode(self.allocator, seq, [each.last for each in batch])
        assert (given is not None) == fits
        for each, slot in zip(batch, given or (), strict=given is not None):
            self._grow(each, [slot], 1)

    @rule(new=st.integers(0, 12), part=st.integers(0, 12), go_on=st.booleans())
    def tail(self, new: int, part: int, go_on: bool) -> None:
        length = min(new, part)
        request = self.requests[0] if go_on and self.requests else Request()
        prefix, seq = len(request.slots), len(request.slots) + new
        need = self._window_demand(request, seq - length, seq) if length else 0
        fits = need <= len(self.window.free)
        fits &= self.full.demand(prefix, seq) <= len(self.full.free)
        RAN["tail" if fits else "tail too much"] += 1
        RAN["tail of 0"] += length == 0
        given = tail(self.allocator, prefix, seq, length, request.last)
        assert (given is not None) == fits
        if given is not None:
            self._grow(request, given, length, always=True)
            self.requests += [request] if request not in self.requests and request.slots else []

    def _window_demand(self, request: Request, start: int, seq: int) -> int:
        first, prefix = start // self.size, len(request.slots)
        continued = prefix % self.size and first == prefix // self.size
        return -(-seq // self.size) - first - bool(continued and request.last in self.peers)

    def _grow(self, request: Request, new: list[int], length: int, always: bool = False) -> None:
        """Only the last `length` tokens have peers, which lie at the same place of one page.

        What continues on a page without one has none either, but for a tail.
        """
        fresh_full = self.full.continues(request.slots, new)
        assert len(fresh_full) == self.full.demand(
            len(request.slots), len(request.slots) + len(new)
        )
        self.full.take(fresh_full)
        fresh: list[int] = []
        for at, slot in enumerate(new):
            peer = self._peer(slot)
            before = request.last
            request.slots.append(slot)
            mapped = at >= len(new) - length
            if not always and slot % self.size and self._page_peer(before, slot) == 0:
                mapped = False
            assert bool(peer) == mapped
            if not mapped:
                self.peers.pop(slot, None)
                continue
            assert peer % self.size == slot % self.size
            on_page = {self.peers[s] // self.size for s in self._page(slot) if s in self.peers}
            assert on_page <= {peer // self.size}
            if not on_page:
                fresh.append(peer // self.size)
            self.peers[slot] = peer
        self.window.take(fresh)

    def _peer(self, slot: int) -> int:
        return int(self.allocator.translate_loc_from_full_to_swa(slots(slot)))

    def _page_peer(self, before: int, slot: int) -> int:
        assert before == slot - 1
        return self.peers.get(before, 0)

    def _page(self, slot: int) -> range:
        start = slot // self.size * self.size
        return range(start, start + self.size)

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def evict_set(self, data: st.DataObject) -> None:
        RAN["evict set"] += 1
        request = data.draw(st.sampled_from(self.requests))
        some = data.draw(st.lists(st.sampled_from(request.slots), max_size=4))
        mine = slots(*some)
        self.allocator.free_swa(mine)
        mine.fill_(self.size)
        self._unpair(some)

    @precondition(lambda self: self.requests)
    @rule(data=st.data(), first=st.integers(0, 2), pages=st.integers(1, 3))
    def evict_segment(self, data: st.DataObject, first: int, pages: int) -> None:
        RAN["evict segment"] += 1
        row = data.draw(st.sampled_from(self.requests)).slots
        start = first * self.size
        some = row[start : start + pages * self.size]
        mine = slots(*some)
        self.allocator.free_swa_segment(mine, start_pos=start)
        mine.fill_(self.size)
        self._unpair(some)

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def free(self, data: st.DataObject) -> None:
        RAN["free"] += 1
        some = data.draw(st.permutations(self._drop(data).slots))
        mine = slots(*some)
        self.allocator.free(mine)
        mine.fill_(self.size)
        self._gone(some)

    @precondition(lambda self: self.requests)
    @rule(data=st.data(), whole=st.booleans())
    def free_after_eviction(self, data: st.DataObject, whole: bool) -> None:
        RAN["free after eviction"] += 1
        mine = torch.tensor(some := self._drop(data).slots)
        self.allocator.free_swa_segment(mine, start_pos=0)
        if whole:
            self.allocator.free_full_segment(mine, start_pos=0)
        else:
            self.allocator.free_full(mine)
        self._gone(some)

    @precondition(lambda self: self.requests)
    @rule(data=st.data(), middle=st.integers(1, 3))
    def free_segment(self, data: st.DataObject, middle: int) -> None:
        RAN["free segment"] += 1
        mine = torch.tensor(some := self._drop(data).slots)
        cut = middle * self.size
        self.allocator.free_segments([(mine[:cut], 0), (mine[cut:], cut)])
        self._gone(some)

    @rule(data=st.data())
    def free_again(self, data: st.DataObject) -> None:
        """Pages that are not owned, the reserved one and what is out of range among them."""
        RAN["free again"] += 1
        pages = [-1, 0, self.full.pages + 1, *self.full.free, *self.full.held]
        again = slots(data.draw(st.sampled_from(pages)) * self.size)
        self.allocator.free(again)
        self.allocator.free_segment(again, start_pos=0)
        self.allocator.free_swa_segment(again, start_pos=0)

    @precondition(lambda self: self.full.free)
    @rule(data=st.data(), stale=st.integers(1, 40))
    def stale_mapping(self, data: st.DataObject, stale: int) -> None:
        """What a free slot maps to does not matter to whoever is given it next."""
        RAN["stale mapping"] += 1
        page = data.draw(st.sampled_from(sorted(self.full.free)))
        place = slice(page * self.size, (page + 1) * self.size)
        self.allocator.full_to_swa_index_mapping[place] = stale
        given = tail(self.allocator, 0, len(self.full.free) * self.size, 0)
        assert given is not None
        assert not self.allocator.translate_loc_from_full_to_swa(slots(*given)).any()
        self.full.take(self.full.continues([], given))
        self.requests.append(Request(given))

    @rule()
    def group(self) -> None:
        RAN["group"] += 1
        if self.full.in_group:
            self.allocator.free_group_end()
            self.full.end_group()
            self.window.end_group()
        else:
            self.allocator.free_group_begin()
            self.full.in_group = self.window.in_group = True

    @rule(really=st.integers(0, 3))
    def clear(self, really: int) -> None:
        if really:
            return
        RAN["clear"] += 1
        self.allocator.clear()
        self.full.clear()
        self.window.clear()
        self.peers, self.requests = {}, []

    def _drop(self, data: st.DataObject) -> Request:
        return self.requests.pop(data.draw(st.integers(0, len(self.requests) - 1)))

    def _unpair(self, some: list[int]) -> None:
        for slot in some:
            for other in self._page(slot):
                if other in self.peers:
                    self.window.give_back({self.peers.pop(other) // self.size})

    def _gone(self, some: list[int]) -> None:
        self._unpair(some)
        self.full.give_back({slot // self.size for slot in some})

    @invariant()
    def accounts_agree(self) -> None:
        if not hasattr(self, "full"):
            return
        made: Any = self.allocator
        free, swa_free = len(self.full.free) * self.size, len(self.window.free) * self.size
        assert made.full_available_size() == free <= made.size_full
        assert made.swa_available_size() == swa_free <= made.size_swa
        assert made.available_size() == min(free, swa_free)
        assert free_pages(made.full_attn_allocator) == sorted(self.full.free)
        assert free_pages(made.swa_attn_allocator) == sorted(self.window.free)
        table = made.full_to_swa_index_mapping.tolist()
        assert table[-1] == -1
        assert {slot: peer for slot, peer in enumerate(table[:-1]) if peer} == self.peers
        windows = list(self.peers.values())
        assert len(set(windows)) == len(windows)
        assert {peer // self.size for peer in windows} == self.window.owned


def test_pairs_follow_the_model() -> None:
    RAN.clear()
    run_state_machine_as_test(
        Pairs,
        settings=settings(
            max_examples=120, stateful_step_count=40, deadline=None, derandomize=True
        ),
    )
    assert set(RAN) == RULES
    assert min(RAN.values()) >= 10, RAN


def test_the_model_sees_a_page_lent_twice() -> None:
    """A model that accepts anything would prove nothing."""
    space = Space(2, 4)
    space.take([1])
    for pages in ([1], [2, 2], [3], [0]):
        try:
            space.take(pages)
        except AssertionError:
            continue
        raise AssertionError(f"{pages} were accepted")
    assert paged(8).available_size() == 8
