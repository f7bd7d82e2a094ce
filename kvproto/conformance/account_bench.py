"""Who lends slots or rows, on the bench: calls with plain numbers, and who owns what.

What an allocator hands out is the oracle of its accounts: all that is free is taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor

from kvproto.protocols import (
    AllocatorRequest,
    PagedAllocator,
    RequestPoolRequest,
    StateSlotsRequest,
    SWAAllocatorRequest,
    supports,
)

from .bench import Bench
from .broken import LawBroken

__all__ = [
    "REFUSALS",
    "AllocBench",
    "PairBench",
    "RequestStub",
    "RowsBench",
    "SlotsBench",
    "numbers",
    "refused",
    "slots",
]

REFUSALS = (ValueError, IndexError, KeyError, RuntimeError, AssertionError)
"""What may be raised by an allocator that refuses a wrong call instead of ignoring it."""


def refused(action: Callable[[], object]) -> bool:
    """Was a call that an allocator may refuse refused?"""
    try:
        action()
    except REFUSALS:
        return True
    return False


def slots(given: Iterable[int], dtype: torch.dtype = torch.int64) -> Tensor:
    """A tensor of slots."""
    return torch.tensor(list(given), dtype=dtype)


def numbers(call: str, given: object, length: int) -> list[int] | None:
    """The slots that came, None where None did.

    :raises LawBroken: for anything but `[length]` slots.
    """
    if given is None:
        return None
    if not isinstance(given, Tensor) or given.shape != (length,) or given.is_floating_point():
        got = f"{given.dtype} {list(given.shape)}" if isinstance(given, Tensor) else repr(given)
        raise LawBroken(call, expected=f"[{length}] slots, or None", got=got)
    return [int(slot) for slot in given]


class AllocBench(Bench):
    """An allocator of token slots. A request is the list of its slots, token by token."""

    request: AllocatorRequest | SWAAllocatorRequest

    @property
    def page_size(self) -> int:
        """Slots on a page."""
        return self.request.page_size

    @property
    def usable(self) -> int:
        """Slots that can be owned at once, by whoever needs a whole token."""
        return self.request.size

    @property
    def lendable(self) -> range:
        """The slots that may be handed out: all but those of the reserved page."""
        return range(self.page_size, self.request.size + self.page_size)

    @property
    def paged(self) -> bool:
        """Can it continue requests on the pages they end on?"""
        return supports(self.pool, PagedAllocator)

    def alloc(self, need_size: int) -> list[int] | None:
        """The slots, or None."""
        return numbers(f"alloc({need_size})", self.pool.alloc(need_size), need_size)

    def take(self, need_size: int) -> list[int]:
        """The slots of a new request, as engines ask for them; there must be as many."""
        return self.must(f"alloc({need_size})", need_size, self.alloc(need_size))

    def must(self, call: str, need_size: int, given: list[int] | None) -> list[int]:
        """What was given.

        :raises LawBroken: when that is None.
        """
        if given is None:
            got = f"None, with available_size() {self.pool.available_size()}"
            raise LawBroken(call, expected=f"{need_size} slots", got=got)
        return given

    def rest(self) -> list[int]:
        """All slots that can still be had, taken."""
        return self.take(self.pool.available_size())

    def extend(self, batch: Sequence[list[int]], lens: Sequence[int]) -> list[int] | None:
        """`alloc_extend` of each request by so many tokens; the requests are not changed."""
        prefix = slots(map(len, batch))
        seq, total = prefix + slots(lens), sum(lens)
        lengths = (prefix, prefix.clone(), seq, seq.clone())
        given = self.pool.alloc_extend(*lengths, self._last(batch), total)
        return numbers(self.extend_call(batch, lens), given, total)

    def decode(self, batch: Sequence[list[int]]) -> list[int] | None:
        """`alloc_decode` of a further token for each; the requests are not changed."""
        seq = slots(len(row) + 1 for row in batch)
        given = self.pool.alloc_decode(seq, seq.clone(), self._last(batch))
        return numbers(self.decode_call(batch), given, len(batch))

    def extend_call(self, batch: Sequence[list[int]], lens: Sequence[int]) -> str:
        """The call as reports show it."""
        prefix = [len(row) for row in batch]
        seq = [before + more for before, more in zip(prefix, lens, strict=True)]
        last = [(row or [-1])[-1] for row in batch]
        return f"alloc_extend(prefix_lens={prefix}, seq_lens={seq}, last_loc={last})"

    def decode_call(self, batch: Sequence[list[int]]) -> str:
        """The call as reports show it."""
        seq, last = [len(row) + 1 for row in batch], [row[-1] for row in batch]
        return f"alloc_decode(seq_lens={seq}, last_loc={last})"

    def free(self, given: Iterable[int], dtype: torch.dtype = torch.int64) -> None:
        """Free slots as a set."""
        self.pool.free(slots(given, dtype))

    def free_segment(
        self, given: Iterable[int], start_pos: int, dtype: torch.dtype = torch.int64
    ) -> None:
        """Free consecutive tokens of one request."""
        self.pool.free_segment(slots(given, dtype), start_pos=start_pos)

    def expect_owned(self, call: str, *rows: Sequence[int]) -> None:
        """No slot of these requests is another's too, and all may be handed out."""
        every = Counter(slot for row in rows for slot in row)
        strangers = sorted(set(every) - set(self.lendable))
        if strangers:
            allowed = f"slots {self.lendable.start}..{self.lendable.stop - 1}"
            raise LawBroken(call, expected=allowed, got=f"{strangers} among them")
        twice = sorted(slot for slot, owners in every.items() if owners > 1)
        if twice:
            raise LawBroken(call, expected="slots nobody owns", got=f"{twice} owned twice")

    def expect_continues(self, call: str, before: Sequence[int], new: Sequence[int]) -> None:
        """Token `t` has offset `t % page_size`, and the same page as the token before it there."""
        row = [*before, *new]
        for token in range(len(before), len(row)):
            offset = token % self.page_size
            right = row[token - 1] + 1 if offset else row[token] // self.page_size * self.page_size
            if row[token] != right:
                place = f"token {token} at slot {right}" if offset else f"token {token} on a page"
                raise LawBroken(call, expected=place, got=f"slot {row[token]}")

    def expect_only_owned(self, call: str, *rows: Sequence[int]) -> None:
        """Everything but the pages of these rows can be had again, each slot once.

        Takes it all, and clears the accounts: it is the last look at them.
        """
        self.expect_room(call, rows)
        pages = {slot // self.page_size for row in rows for slot in row}
        expected = [slot for slot in self.lendable if slot // self.page_size not in pages]
        got = sorted(self.rest())
        if got != expected:
            wrong = f"{_shorter(got)}, so {_difference(got, expected)}"
            raise LawBroken(
                f"{call}; taking all that is free", expected=_shorter(expected), got=wrong
            )
        self.expect(f"{call}; available_size(), all taken", expected=0, got=self.room()[0])
        self.pool.clear()

    def expect_room(self, call: str, rows: Sequence[Sequence[int]]) -> None:
        """As many slots are available as these rows leave."""
        owned = len({slot // self.page_size for row in rows for slot in row}) * self.page_size
        left = len(self.lendable) - owned
        self.expect(f"{call}; available_size()", expected=left, got=self.pool.available_size())

    def room(self) -> tuple[int, ...]:
        """What is available, in every space."""
        return (self.pool.available_size(),)

    def all_peers(self) -> list[int]:
        """The window peers of every slot, where there is a window."""
        return []

    def shortages(self) -> Iterator[str]:
        """Bring the accounts into states in which little is free; says how."""
        self.held = self.take((self.usable // self.page_size // 2 + 1) * self.page_size)
        yield "with half of the pages owned"

    def too_much(self) -> Iterator[tuple[str, Callable[[], object]]]:
        """Calls that need one page more than there is."""
        size, pages = self.page_size, self.pool.available_size() // self.page_size + 1
        yield f"alloc({pages * size})", lambda: self.alloc(pages * size)
        if not self.paged:
            return
        one: tuple[list[int], list[int]] = ([], [])
        two = ((pages - 1) * size, 1)
        yield self.extend_call(one, two), lambda: self.extend(one, two)
        full = [self.held[i * size : (i + 1) * size] for i in range(len(self.held) // size)]
        if len(full) >= pages:
            batch = full[:pages]
            yield self.decode_call(batch), lambda: self.decode(batch)

    def _last(self, batch: Sequence[list[int]]) -> Tensor:
        return slots((row or [-1])[-1] for row in batch)


class PairBench(AllocBench):
    """An allocator of full slots and their window peers."""

    @property
    def asked(self) -> SWAAllocatorRequest:
        """The request, which is one for a pair."""
        return cast("SWAAllocatorRequest", self.request)

    @property
    def usable(self) -> int:
        """What the smaller space has."""
        return min(self.asked.size, self.asked.size_swa)

    def peers(self, given: Iterable[int]) -> list[int]:
        """The window slots of full ones."""
        return [int(p) for p in self.pool.translate_loc_from_full_to_swa(slots(given))]

    def tail(self, row: Sequence[int], new: int, swa_tail_len: int) -> list[int] | None:
        """`alloc_extend_swa_tail` of a request by `new` tokens; the request is not changed."""
        prefix, seq = slots([len(row)]), slots([len(row) + new])
        lengths = (prefix, prefix.clone(), seq, seq.clone())
        given = self.pool.alloc_extend_swa_tail(
            *lengths, self._last([list(row)]), new, swa_tail_len
        )
        return numbers(self.tail_call(row, new, swa_tail_len), given, new)

    def tail_call(self, row: Sequence[int], new: int, swa_tail_len: int) -> str:
        """The call as reports show it."""
        lens = f"prefix_lens=[{len(row)}], seq_lens=[{len(row) + new}]"
        return f"alloc_extend_swa_tail({lens}, swa_tail_len={swa_tail_len})"

    def take(self, need_size: int) -> list[int]:
        """As prompts are: a pair with pages need not serve `alloc` to serve an engine."""
        if self.page_size == 1:
            return super().take(need_size)
        call, given = self.extend_call([[]], [need_size]), self.extend([[]], [need_size])
        return self.must(call, need_size, given)

    def tailed(self, new: int, swa_tail_len: int) -> list[int]:
        """A new request whose tail alone has peers."""
        call = self.tail_call([], new, swa_tail_len)
        return self.must(call, new, self.tail([], new, swa_tail_len))

    def evicted(self, new: int, left: int = 0) -> list[int]:
        """A new request of which only the last tokens still have peers."""
        row: list[int] = []
        while len(row) < new:
            part = self.take(min(new - len(row), self.pool.available_size()))
            row += part
            self.pool.free_swa(slots(part[: len(part) - left] if len(row) == new else part))
        return row

    def rest(self) -> list[int]:
        """With peers as long as there are any, then, with the peers freed, what is left."""
        given = self.take(self.pool.available_size())
        left = self.pool.full_available_size()
        if left and given:
            self.pool.free_swa(slots(given))
        return [*given, *(self.evicted(left) if self.pool.available_size() else ())]

    def expect_room(self, call: str, rows: Sequence[Sequence[int]]) -> None:
        """In the window the pages of the rows' peers are owned, and no others."""
        every = [slot for row in rows for slot in row]
        pages = {slot // self.page_size for slot in every}
        windows = {peer // self.page_size for peer in self.peers(every) if peer > 0}
        left = (
            self.request.size - len(pages) * self.page_size,
            self.asked.size_swa - len(windows) * self.page_size,
        )
        said = f"{call}; full_available_size(), swa_available_size()"
        self.expect(said, expected=left, got=self.room())
        self.expect(f"{call}; available_size()", expected=min(left), got=self.pool.available_size())

    def room(self) -> tuple[int, ...]:
        """The full space and the window."""
        return self.pool.full_available_size(), self.pool.swa_available_size()

    def all_peers(self) -> list[int]:
        """The window peers of every slot."""
        return self.peers(self.lendable)

    def shortages(self) -> Iterator[str]:
        """Once with the window short, or both, and once with the full space alone."""
        yield from super().shortages()
        self.pool.free_swa(slots(self.held))
        self.held += self.evicted(self.pool.full_available_size() - self.page_size)
        yield "with all but one of the full pages owned, and no window page"

    def too_much(self) -> Iterator[tuple[str, Callable[[], object]]]:
        """The same, and prompts with a tail."""
        yield from super().too_much()
        if self.page_size == 1:
            return
        full, window = (left // self.page_size + 1 for left in self.room())
        for pages, tail in ((full, 0), (full, 1), (window, window * self.page_size)):
            new = pages * self.page_size
            yield self.tail_call([], new, tail), partial(self.tail, [], new, tail)


class SlotsBench(Bench):
    """An allocator of state slots."""

    request: StateSlotsRequest

    def alloc(self, need_size: int) -> list[int] | None:
        """The slots, or None."""
        return numbers(f"alloc({need_size})", self.pool.alloc(need_size), need_size)

    def take(self, need_size: int) -> list[int]:
        """The slots, of which there must be as many."""
        given = self.alloc(need_size)
        if given is None:
            raise LawBroken(f"alloc({need_size})", expected=f"{need_size} slots", got="None")
        return given

    def free(self, given: Iterable[int], dtype: torch.dtype = torch.int64) -> None:
        """Free slots."""
        self.pool.free(slots(given, dtype))

    def expect_only_owned(self, call: str, owned: Sequence[int]) -> None:
        """Every other slot from 1 on can be had again, once; the last look at the accounts."""
        left = self.request.size - len(owned)
        self.expect(f"{call}; available_size()", expected=left, got=self.pool.available_size())
        expected = sorted(set(range(1, self.request.size + 1)) - set(owned))
        got = sorted(self.take(left))
        self.expect(f"{call}; taking all that is free", expected=expected, got=got)
        self.expect(f"{call}; alloc(1), all taken", expected=None, got=self.alloc(1))
        self.pool.clear()


@dataclass
class _Held:
    """What a request holds, as far as pools look."""

    req_pool_idx: int | None = None
    kv_allocated_len: int = 1

    @property
    def holds_kv(self) -> bool:
        return self.req_pool_idx is not None


@dataclass
class RequestStub:
    """One of the engine's requests, as far as pools look at it."""

    kv: _Held = field(default_factory=_Held)

    @property
    def row(self) -> int | None:
        """Its row, None without one."""
        return self.kv.req_pool_idx


class RowsBench(Bench):
    """A table of rows, one a request."""

    request: RequestPoolRequest

    @property
    def lendable(self) -> range:
        """The rows that may be handed out."""
        return range(1, self.request.size + self.request.pre_alloc_size + 1)

    def requests(self, count: int) -> list[Any]:
        """So many requests without a row."""
        return [RequestStub() for _ in range(count)]

    def alloc(self, requests: Sequence[Any]) -> list[int]:
        """The rows of requests for which there must be enough."""
        rows = self.pool.alloc(list(requests))
        call = f"alloc({len(requests)} requests)"
        if rows is None:
            raise LawBroken(call, expected=f"{len(requests)} rows", got="None")
        self.expect(f"{call}; kv.req_pool_idx", expected=rows, got=[r.row for r in requests])
        return [int(row) for row in rows]


def _shorter(given: Sequence[int]) -> str:
    return str(list(given)) if len(given) <= 16 else f"{len(given)} slots, {list(given[:8])}..."


def _difference(got: Sequence[int], expected: Sequence[int]) -> str:
    twice = sorted(slot for slot, times in Counter(got).items() if times > 1)
    told = {
        "twice": twice,
        "not free": sorted(set(got) - set(expected)),
        "missing": sorted(set(expected) - set(got)),
    }
    return ", ".join(f"{_shorter(which)} {what}" for what, which in told.items() if which)
