"""Allocators for windowed layers on the bench: what pairs, single spaces and rings share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .account_bench import AllocBench, numbers, slots

__all__ = ["PureBench", "WindowBench"]


class WindowBench(AllocBench):
    """An allocator whose ids may have a peer in a window space."""

    def peers(self, given: Iterable[int]) -> list[int]:
        """The window slots of full ones."""
        return [int(p) for p in self.pool.translate_loc_from_full_to_swa(slots(given))]

    def all_peers(self) -> list[int]:
        """The window peers of every slot."""
        return self.peers(self.lendable)

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

    def tailed(self, new: int, swa_tail_len: int) -> list[int]:
        """A new request whose tail alone has peers."""
        call = self.tail_call([], new, swa_tail_len)
        return self.must(call, new, self.tail([], new, swa_tail_len))


class PureBench(WindowBench):
    """An allocator of one space, whose slots are their own peers."""

    def room(self) -> tuple[int, ...]:
        """The space under each of its names."""
        return self.pool.full_available_size(), self.pool.swa_available_size()

    def expect_free(self, call: str, count: int) -> None:
        """So many slots are free, under every name."""
        got = (self.pool.available_size(), *self.room())
        self.expect(f"{call}; available_size() and both sides", expected=(count,) * 3, got=got)
