"""An allocator of ids, some of which have a place on the device, on the bench."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, cast

from kvproto.protocols import HiSparse, HiSparseAllocatorRequest

from .account_bench import AllocBench, numbers, slots
from .broken import LawBroken

__all__ = ["HiSparseBench"]


class HiSparseBench(AllocBench):
    """A request is the list of its ids. Device slots are asked of the pool that has the mapping.

    `alloc` lends ids with device slots. `buffers` are the device slots that no id has.
    """

    held: list[int]

    def __init__(self, request: Any, pool: Any, seed: int = 0) -> None:
        super().__init__(request, pool, seed)
        self.buffers: list[int] = []

    @classmethod
    def suits(cls, pool: Any) -> bool:
        """Is there a pool to ask where an id's device slot is?"""
        return hasattr(pool, "get_kvcache") and isinstance(pool.get_kvcache(), HiSparse)

    @property
    def asked(self) -> HiSparseAllocatorRequest:
        """The request, which is one for ids and device slots."""
        return cast("HiSparseAllocatorRequest", self.request)

    @property
    def lendable(self) -> range:
        """The ids that may be handed out."""
        return range(self.page_size, self.asked.size_logical + self.page_size)

    @property
    def device_slots(self) -> range:
        """The device slots that may be handed out."""
        return range(self.page_size, self.request.size + self.page_size)

    def device(self, given: Iterable[int]) -> list[int]:
        """The device slots of ids, 0 for none."""
        found = self.pool.get_kvcache().translate_loc_to_hisparse_device(slots(given))
        return [int(slot) for slot in found]

    def all_peers(self) -> list[int]:
        """The device slots of all ids."""
        return self.device(self.lendable)

    def room(self) -> tuple[int, ...]:
        """Free ids and free device slots."""
        parts = self.pool.logical_attn_allocator, self.pool.hisparse_attn_allocator
        return parts[0].available_size(), parts[1].available_size()

    def logical(self, batch: Sequence[list[int]], lens: Sequence[int]) -> list[int] | None:
        """`alloc_logical_only` of each request by so many tokens; the requests are not changed."""
        prefix = slots(map(len, batch))
        seq, total = prefix + slots(lens), sum(lens)
        lengths = (prefix, prefix.clone(), seq, seq.clone())
        given = self.pool.alloc_logical_only(*lengths, self._last(batch), total)
        return numbers(self.logical_call(batch, lens), given, total)

    def logical_call(self, batch: Sequence[list[int]], lens: Sequence[int]) -> str:
        """The call as reports show it."""
        return self.extend_call(batch, lens).replace("alloc_extend", "alloc_logical_only")

    def take_logical(self, need: int) -> list[int]:
        """A new request without device slots."""
        return self.must(
            self.logical_call([[]], [need]), need, self.logical([[]], [need]) if need else []
        )

    def buffer(self, row: Sequence[int], need: int) -> list[int] | None:
        """`alloc_device_buffer` of a request."""
        given = self.pool.alloc_device_buffer(slots(row), need)
        return numbers(self.buffer_call(row, need), given, need)

    def take_buffer(self, row: Sequence[int], need: int) -> list[int]:
        """The buffer of a request, for which there must be room."""
        given = self.must(self.buffer_call(row, need), need, self.buffer(row, need))
        self.buffers += given
        return given

    def buffer_call(self, row: Sequence[int], need: int) -> str:
        """The call as reports show it."""
        shown = list(row) if len(row) < 9 else f"{len(row)} ids"
        return f"alloc_device_buffer({shown}, {need})"

    def free_device(self, given: Iterable[int]) -> None:
        """`free_hisparse` of ids."""
        self.pool.free_hisparse(slots(given))

    def free_buffer(self, given: Sequence[int]) -> None:
        """`free_hisparse_indices` of device slots."""
        self.buffers = [slot for slot in self.buffers if slot not in given]
        self.pool.free_hisparse_indices(slots(given))

    def rest(self) -> list[int]:
        """Ids with device slots as long as there are any, then ids alone."""
        given = super().rest()
        return given + self.take_logical(self.room()[0])

    def expect_room(self, call: str, rows: Sequence[Sequence[int]]) -> None:
        """On the device the pages of the rows' slots and of the buffers are owned, no others."""
        every = [each for row in rows for each in row]
        pages = {each // self.page_size for each in every}
        held = [slot for slot in self.device(every) if slot > 0] + self.buffers
        owned = {slot // self.page_size for slot in held}
        left = (
            self.asked.size_logical - len(pages) * self.page_size,
            self.request.size - len(owned) * self.page_size,
        )
        self.expect(f"{call}; free ids and device slots", expected=left, got=self.room())
        self.expect(f"{call}; available_size()", expected=min(left), got=self.pool.available_size())

    def expect_placed(self, call: str, row: Sequence[int], places: Sequence[bool]) -> None:
        """These ids have a device slot at their own offset of a page, no other's; the rest none."""
        found = self.device(row)
        for each, slot, placed in zip(row, found, places, strict=True):
            offset = each % self.page_size
            right = slot in self.device_slots and slot % self.page_size == offset
            if not (right if placed else slot == 0):
                expected = f"a slot at offset {offset}" if placed else "0"
                raise LawBroken(f"{call}; device slot of {each}", expected=expected, got=str(slot))
        mine = [slot for slot in found if slot]
        taken = sorted({slot for slot in mine if mine.count(slot) > 1 or slot in self.buffers})
        self.expect(f"{call}; device slots of two owners", expected=[], got=taken)

    def shortages(self) -> Iterator[str]:
        """Once with the device short, and once with the ids alone."""
        yield from super().shortages()
        self.free_device(self.held)
        self.held += self.take_logical(self.room()[0] - self.page_size)
        yield "with all but one page of the ids owned, and no device slot"

    def too_much(self) -> Iterator[tuple[str, Callable[[], object]]]:
        """Calls that need a page more than there is, of ids or of the device."""
        size, (ids, device) = self.page_size, (left // self.page_size for left in self.room())
        least = min(ids, device) + 1
        yield f"alloc({least * size})", partial(self.alloc, least * size)
        two: list[list[int]] = [[], []]
        lens = ((least - 1) * size, 1)
        yield self.extend_call(two, lens), partial(self.extend, two, lens)
        lens = (ids * size, 1)
        yield self.logical_call(two, lens), partial(self.logical, two, lens)
        own = len({slot // size for slot in self.device(self.held) if slot})
        need = (device + own + 1) * size
        yield self.buffer_call(self.held, need), partial(self.buffer, self.held, need)
        full = [self.held[i * size : (i + 1) * size] for i in range(len(self.held) // size)]
        if len(full) > ids:
            batch = full[: ids + 1]
            yield self.decode_call(batch), partial(self.decode, batch)
