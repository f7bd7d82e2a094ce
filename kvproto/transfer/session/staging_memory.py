"""Memory of a receiver that pages of another layout arrive in, until they are converted."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from ..engines.engine import TransferEngine
from ..host.memory import OpenBytes
from ..host.memory import open_bytes as opened_by_torch
from ..planning.conversion import convert_own, receiver_layers
from ..planning.plan import TransferPlan
from ..planning.staging import most_staging_bytes, staging_bytes_of
from .fence import Fence, fence
from .free_ranges import FreeRanges, aligned
from .link import Link
from .messages import Staging
from .receiving import Receiving
from .reservation import PageNumbers
from .staged import Staged
from .transfer_error import OutOfStaging

__all__ = ["StagingMemory", "StagingOptions", "staging_memory"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StagingOptions:
    """Memory of a receiver for pages whose layout is not its own, until they are converted.

    At most `most_bytes` of it, on the `device` of the receiver's pools, which addresses do not
    tell; there is none where no plan converts. `open_bytes` shows the bytes of the pools at an
    address: by itself on `cpu` and `cuda`, other devices need a function of theirs.
    """

    device: torch.device | str
    most_bytes: int = 256 << 20
    open_bytes: OpenBytes = opened_by_torch


def staging_memory(links: Sequence[Link], options: StagingOptions | None) -> StagingMemory | None:
    """Staging memory for what comes over these links; None where nothing of it is converted.

    :raises ValueError: without options, for too few bytes for one page, and for a device without
        `open_bytes`.
    :raises EngineError: for memory that an engine cannot register.
    """
    names = {pair.name for link in links for pair in link.plan.pairs if pair.is_converted}
    if not names:
        return None
    if options is None:
        raise ValueError(
            f"pages of {', '.join(sorted(names))} are converted on arrival: give "
            "staging=StagingOptions(device=...), the device of the pools"
        )
    return StagingMemory(links, options)


class StagingMemory:
    """One piece of memory, registered with the engines of all links, and who has which part of it.

    A transfer has its part from before its peers are told of it until none of them can write there
    and its pages are converted, or it has failed: as long as its pages are not seen. Who finds no
    room waits, first come, first served.

    The memory stays where it is until `close` and the end of the last transfer, though nobody holds
    the receiver any more: a peer may write to it.
    """

    def __init__(self, links: Sequence[Link], options: StagingOptions) -> None:
        plans = [link.plan for link in links]
        device = torch.device(options.device)
        self._links = tuple(links)
        opened = partial(_opened, options.open_bytes, device)
        self._layers = [receiver_layers(plan, opened) for plan in plans]
        every = _laid_out([most_staging_bytes(plan) for plan in plans])[1]
        self.nbytes = min(options.most_bytes, every)
        _check_one_page(plans, self.nbytes)
        self._memory, span = _memory(self.nbytes, _alignment(plans), device)
        self._free = FreeRanges(self.nbytes)
        self._waiting: deque[tuple[Receiving, Staged]] = deque()
        self._lent, self._is_closing = 0, False
        self._registrations = [engine.register([span]) for engine in _engines(links)]
        _REGISTERED.add(self)

    def announce(self) -> None:
        """Tell every peer's engine of the memory: before anything is wanted there."""
        for link in self._links:
            link.exchange.send(Staging(link.engine.metadata()))

    def stage(self, key: str, lists: list[PageNumbers]) -> Staged | None:
        """What a transfer of these pages, of each link, needs; None where none is converted.

        :raises OutOfStaging: for more than there is in all.
        """
        needs = [
            staging_bytes_of(link.plan, {space: len(each) for space, each in pages.items()})
            for link, pages in zip(self._links, lists, strict=True)
        ]
        places, nbytes = _laid_out(needs)
        if nbytes > self.nbytes:
            raise OutOfStaging(
                f"transfer {key} needs {nbytes} bytes of staging memory at once, there are "
                f"{self.nbytes}: StagingOptions(most_bytes=...) says how many, or ask for fewer "
                "tokens at a time"
            )
        return Staged(lists, places, nbytes) if nbytes else None

    def wait(self, receiving: Receiving, staged: Staged) -> None:
        """Be the last who waits for room."""
        self._waiting.append((receiving, staged))

    def placed(self) -> Iterator[tuple[Receiving, list[int]]]:
        """Those who wait no longer, and the address of each link's pages."""
        while self._waiting:
            receiving, staged = self._waiting[0]
            staged.begin = self._free.take(staged.nbytes)
            if staged.begin is None:
                return
            self._waiting.popleft()
            self._lent += 1
            first = self._memory.data_ptr() + staged.begin
            yield receiving, [first + place for place in staged.places]

    def convert(self, staged: Staged) -> Fence:
        """Begin to bring pages that have arrived whole to their places.

        :raises ValueError, IndexError, RuntimeError: from the kernel; `staged.fence` is set
            all the same.
        """
        assert staged.begin is not None  # only what had a place arrived
        try:
            for at, link in enumerate(self._links):
                part = self._memory[staged.begin + staged.places[at] :]
                convert_own(link.plan, staged.lists[at], part, self._layers[at])
        finally:
            staged.fence = fence(self._memory.device)
        return staged.fence

    def forget(self, receiving: Receiving, staged: Staged) -> None:
        """Wait no longer for room."""
        self._waiting.remove((receiving, staged))

    def leave(self, staged: Staged) -> None:
        """A transfer is over: nothing is written to its part, or read from it, any more."""
        if staged.begin is not None:
            self._free.give_back(staged.begin, staged.nbytes)
            self._lent -= 1
            self._release_unused()

    def close(self) -> None:
        """Let go of the memory once no transfer has a part of it.

        :raises EngineError: from an engine that holds on to it; it stays then.
        """
        self._is_closing = True
        self._release_unused()

    def _release_unused(self) -> None:
        if self._is_closing and not self._lent:
            while self._registrations:
                self._registrations[-1].release()
                self._registrations.pop()
            _REGISTERED.discard(self)


_REGISTERED: set[StagingMemory] = set()
"""What a peer may write to, whoever still holds it."""


def _opened(open_bytes: OpenBytes, device: torch.device, address: int, nbytes: int) -> Tensor:
    return open_bytes(address, nbytes, device)


def _laid_out(needs: Sequence[int]) -> tuple[tuple[int, ...], int]:
    """Where the bytes of each begin, one after the other, and where the last ones end."""
    places, end = list[int](), 0
    for need in needs:
        begin = aligned(end) if need else end
        places.append(begin)
        end = begin + need
    return tuple(places), end


def _check_one_page(plans: Sequence[TransferPlan], nbytes: int) -> None:
    needs = [staging_bytes_of(plan, dict.fromkeys(plan.spaces, 1)) for plan in plans]
    if (least := _laid_out(needs)[1]) > nbytes:
        raise ValueError(
            f"StagingOptions.most_bytes is {nbytes}: one page of each space needs {least} bytes"
        )


def _alignment(plans: Sequence[TransferPlan]) -> int:
    """What engines ask of registered memory: as the regions that the pages are for."""
    ends = (pair.local for plan in plans for pair in plan.pairs if pair.is_converted)
    return aligned(max(end.region.registration_alignment for end in ends))


def _memory(nbytes: int, unit: int, device: torch.device) -> tuple[Tensor, tuple[int, int]]:
    """So many bytes that begin at a multiple of `unit`, and what to register for them."""
    whole = -(-nbytes // unit) * unit
    held = torch.empty(whole + unit, dtype=torch.uint8, device=device)
    memory = held[-held.data_ptr() % unit :][:whole]
    return memory[:nbytes], (memory.data_ptr(), whole)


def _engines(links: Sequence[Link]) -> list[TransferEngine]:
    """Each once."""
    return list({link.engine.name: link.engine for link in links}.values())
