"""Who lends token slots, on the bench: calls with plain numbers, and who owns what.

What an allocator hands out is the oracle of its accounts: all that is free is taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
from torch import Tensor

from kvproto.protocols import (
    AllocatorRequest,
    PagedAllocator,
    SWAAllocatorRequest,
    supports,
)

from .bench import Bench
from .broken import LawBroken

__all__ = [
    "REFUSALS",
    "AllocBench",
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
