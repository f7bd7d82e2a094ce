"""Pages of a receiver that bytes are on their way to: taken from its allocators, seen by nobody."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from kvproto.protocols import SlotAllocator, StateSlotAllocator, SWAAllocator, require, supports

from ..manifests.manifest import IndexSpace
from .transfer_error import OutOfPages

__all__ = ["PageNumbers", "Reservation", "page_numbers", "reserve"]

PageNumbers = dict[IndexSpace, NDArray[np.int64]]
"""Pages by index space, `[n]` each, in pages of the pool's own and in the order of tokens."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """Pages that were reserved, and the way back: `free` returns all of them, once.

    `tokens` is how many tokens the pages are for, whose last page may be longer; those from
    `window_begin` on have a place in the window, where there is one. `slots` are their
    slots and `state_slots` those of recurrent state, on their allocators'
    devices, for who takes the reservation over.
    """

    pages: PageNumbers
    free: Callable[[], None]
    tokens: int
    slots: torch.Tensor
    state_slots: torch.Tensor | None = None
    window_begin: int = 0


def reserve(
    allocator: SlotAllocator,
    tokens: int,
    *,
    window_tokens: int | None = None,
    state_allocator: StateSlotAllocator | None = None,
    request_row: int | None = None,
) -> Reservation:
    """Whole pages for one request of `tokens` tokens, and a state slot where there is state.

    `request_row` is its row of the request table, for pools that keep something by the row: it
    stays the caller's, who frees it after the reservation. With `window_tokens` only the last so
    many tokens have a place in the window, else all of them.

    :raises OutOfPages: where too few are free; nothing is reserved then.
    """
    slots = _slots(allocator, tokens, window_tokens)
    state_slots = None if state_allocator is None else state_allocator.alloc(1)
    if state_allocator is not None and state_slots is None:
        allocator.free(slots)
        raise OutOfPages(
            f"1 state slot is needed, {state_allocator.available_size()} of "
            f"{state_allocator.size} are free"
        )

    def free() -> None:
        allocator.free(slots)
        if state_allocator is not None and state_slots is not None:
            state_allocator.free(state_slots)

    return Reservation(
        page_numbers(allocator, slots, state_slots, request_row=request_row),
        free,
        tokens,
        slots,
        state_slots,
        0 if window_tokens is None else max(0, tokens - window_tokens),
    )


def page_numbers(
    allocator: SlotAllocator,
    slots: torch.Tensor,
    state_slots: torch.Tensor | None = None,
    *,
    request_row: int | None = None,
) -> PageNumbers:
    """The pages that slots of one request lie on, by space; waits for the device.

    `slots` is `[n]`, of consecutive tokens; window pages are those of the tokens that have a peer.
    """
    pages: PageNumbers = {"full": _pages(slots, allocator.page_size)}
    if supports(allocator, SWAAllocator):
        peers = allocator.translate_loc_from_full_to_swa(slots)
        pages["window"] = _pages(peers[peers > 0], allocator.page_size)
    if state_slots is not None:
        pages["state"] = _pages(state_slots, 1)
    if request_row is not None:
        pages["request"] = np.array([request_row], np.int64)
    return pages


def _slots(allocator: SlotAllocator, tokens: int, window_tokens: int | None) -> torch.Tensor:
    if window_tokens is None:
        need = -(-tokens // allocator.page_size) * allocator.page_size
        slots = allocator.alloc(need)
    else:
        pair = require(allocator, SWAAllocator, for_="reserve(window_tokens=...)")
        start, end, last = (torch.tensor([each]) for each in (0, tokens, -1))
        lens = (start.to(pair.device), start, end.to(pair.device), end, last.to(pair.device))
        slots = pair.alloc_extend_swa_tail(*lens, tokens, min(tokens, window_tokens))
    if slots is None:
        raise OutOfPages(
            f"{-(-tokens // allocator.page_size)} pages of {allocator.page_size} tokens are "
            f"needed, {allocator.available_size() // allocator.page_size} are free"
        )
    return slots


def _pages(slots: torch.Tensor, page_size: int) -> NDArray[np.int64]:
    """The page of each slot, those that follow each other once."""
    pages: NDArray[np.int64] = slots.cpu().numpy().astype(np.int64) // page_size
    begins = np.ones(len(pages), bool)
    begins[1:] = pages[1:] != pages[:-1]
    return pages[begins]
