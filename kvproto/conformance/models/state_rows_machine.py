"""Requests with state against the model: rows come and go, slots stay with whoever keeps them."""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar

import torch
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from ..account_bench import REFUSALS
from ..state_rows_bench import StateRowsBench
from .page_model import Differs, require_equal

__all__ = ["StateRowsMachine"]


class StateRowsMachine(RuleBasedStateMachine):
    """Each row and each state slot is free, or one request's or the prefix cache's.

    A subclass sets `subjects`, `ran` and `calls`, as for `SlotsMachine`.
    """

    subjects: ClassVar[st.SearchStrategy[StateRowsBench]]
    ran: ClassVar[Counter[str]]
    calls: ClassVar[list[str]]
    RULES: ClassVar = frozenset({
        "alloc", "alloc again", "alloc too much", "fork", "free row", "free state",
        "free state again", "keep a snapshot", "evict", "clear",
    })  # fmt: skip

    bench: StateRowsBench

    @initialize(data=st.data())
    def build(self, data: st.DataObject) -> None:
        """A fresh pool."""
        self.calls.clear()
        self.bench = data.draw(self.subjects)
        self.rows = set(self.bench.lendable)
        self.slots = set(self.bench.slots)
        self.requests: list[Any] = []
        self.row_of: dict[int, int] = {}
        self.slots_of: dict[int, list[int]] = {}
        self.cached: list[int] = []

    @rule(new=st.integers(0, 3), again=st.integers(0, 2))
    def alloc(self, new: int, again: int) -> None:
        """New requests, beside some that have a row, or had one and still have state."""
        fresh = self.bench.requests(new)
        batch = [*self.requests[:again], *fresh]
        rowless = [each for each in batch if id(each) not in self.row_of]
        stateless = [each for each in batch if id(each) not in self.slots_of]
        need = len(stateless) * self.bench.each + self._untracked(batch)
        fits = len(rowless) <= len(self.rows) and need <= len(self.slots)
        name = "alloc again" if again and self.requests else "alloc"
        self.ran[name if fits else "alloc too much"] += 1
        given = self.bench.pool.alloc(batch)
        self.calls.append(f"alloc({len(batch)} requests, {new} of them new) -> {given}")
        if (given is not None) != fits:
            free = f"with {len(self.rows)} rows and {len(self.slots)} state slots free"
            raise Differs(f"{'rows' if fits else 'None'}, {free}", str(given))
        if given is None:
            return
        self.requests += fresh
        for each, row in zip(batch, given, strict=True):
            self._enter(each, row)

    def _untracked(self, batch: list[Any]) -> int:
        """Snapshot slots for those that came with a state slot and have none."""
        initial = self.bench.asked.mamba_initial_tracking_slots
        forked = [r for r in batch if len(self.slots_of.get(id(r), ())) == 1]
        return initial * len(forked)

    def _enter(self, each: Any, row: int) -> None:
        known = self.row_of.get(id(each))
        if known is None:
            require_equal("row among the free ones", expected=True, got=row in self.rows)
            self.rows.discard(row)
            self.row_of[id(each)] = row
        else:
            require_equal("row of a request that has one", expected=known, got=row)
        owned, before = self.bench.owned([each]), self.slots_of.get(id(each), [])
        require_equal("slots it had", expected=before, got=owned[: len(before)])
        require_equal("slots it has now", expected=self.bench.each, got=len(owned))
        new = set(owned[len(before) :])
        require_equal("new slots among the free ones", expected=set[int](), got=new - self.slots)
        self.slots -= new
        self.slots_of[id(each)] = owned

    @rule()
    def fork(self) -> None:
        """A request that starts with the copy of a prefix's state."""
        if not self.slots:
            return
        self.ran["fork"] += 1
        given = self.bench.pool.mamba_allocator.alloc(1)
        one = self.bench.requests(1)[0]
        one.kv.mamba_pool_idx = given[0]
        slot = int(given[0])
        self.calls.append(f"mamba_allocator.alloc(1) -> {slot}, for a new request")
        require_equal("a free slot", expected=True, got=slot in self.slots)
        self.slots.discard(slot)
        self.requests.append(one)
        self.slots_of[id(one)] = [slot]

    @rule(data=st.data())
    def free_row(self, data: st.DataObject) -> None:
        """A row, while the state stays."""
        held = [each for each in self.requests if id(each) in self.row_of]
        if held:
            self.ran["free row"] += 1
            one = data.draw(st.sampled_from(held))
            self.calls.append(f"free(the request of row {one.row})")
            self.bench.pool.free(one)
            self.rows.add(self.row_of.pop(id(one)))
            self._forget(one)

    @rule(data=st.data(), keep=st.none() | st.integers(0, 1))
    def free_state(self, data: st.DataObject, keep: int | None) -> None:
        """A request's state, or all but a snapshot that the prefix cache keeps."""
        whole = [r for r in self.requests if len(self.slots_of.get(id(r), ())) == self.bench.each]
        if not whole:
            return
        one = data.draw(st.sampled_from(whole))
        snapshots = self.bench.snapshots(one)
        keep = keep if keep is not None and keep < len(snapshots) else None
        self.ran["free state" if keep is None else "keep a snapshot"] += 1
        self.calls.append(f"free_mamba_cache(request with {self.slots_of[id(one)]}, {keep})")
        self.bench.pool.free_mamba_cache(one, keep)
        freed = set(self.slots_of.pop(id(one)))
        if keep is not None:
            freed.discard(snapshots[keep])
            self.cached.append(snapshots[keep])
        self.slots |= freed
        self._forget(one)

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def free_state_again(self, data: st.DataObject) -> None:
        """State of a request that has none."""
        bare = [each for each in self.requests if id(each) not in self.slots_of]
        if not bare:
            return
        self.ran["free state again"] += 1
        self.calls.append("free_mamba_cache(a request without state)")
        try:
            self.bench.pool.free_mamba_cache(data.draw(st.sampled_from(bare)))
        except REFUSALS:
            self.calls[-1] += " refused"

    @rule()
    def evict(self) -> None:
        """The prefix cache gives a snapshot back."""
        if self.cached:
            self.ran["evict"] += 1
            slot = self.cached.pop()
            self.calls.append(f"mamba_allocator.free([{slot}])")
            self.bench.pool.mamba_allocator.free(torch.tensor([slot]))
            self.slots.add(slot)

    @rule(really=st.integers(0, 3))
    def clear(self, really: int) -> None:
        """Start again, one time in four."""
        if really == 0:
            self.ran["clear"] += 1
            self.calls.append("clear()")
            self.bench.pool.clear()
            self.rows, self.slots = set(self.bench.lendable), set(self.bench.slots)
            self.requests, self.row_of, self.slots_of, self.cached = [], {}, {}, []

    def _forget(self, one: Any) -> None:
        """A request that has nothing any more is over."""
        if id(one) not in self.row_of and id(one) not in self.slots_of:
            self.requests = [each for each in self.requests if each is not one]

    @invariant()
    def accounts_agree(self) -> None:
        """What is free, and what rows say, is what the model says."""
        if not hasattr(self, "slots"):
            return
        pool = self.bench.pool
        free = (len(self.rows), len(self.slots))
        got = (pool.available_size(), self.bench.free_slots())
        require_equal("free rows and state slots", expected=free, got=got)
        with_both = [
            r for r in self.requests if {id(r)} <= self.row_of.keys() & self.slots_of.keys()
        ]
        for each in with_both:
            require_equal(
                f"slots of row {each.row}",
                expected=self.slots_of[id(each)][0],
                got=int(self.bench.indices(torch.tensor(each.row))),
            )
