"""Storing, gathering and moving rows by themselves, next to what could do it instead."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor

from kvproto.kernels import gather_rows, move_rows, store_rows

from .c_rows import RowCopy
from .pool_cases import random_slots

__all__ = ["AT_LEAST", "ROW_CASES", "Calls", "row_calls"]

C_LOOP, INDEXING = "the C loop", "buf[dst] = buf[src]"
AT_LEAST: Mapping[str, float] = {"store": 0.6, "gather": 0.85, "move": 1.3}
"""What is demanded, in times the speed of the bar."""
BAR: Mapping[str, str] = {"store": C_LOOP, "gather": C_LOOP, "move": INDEXING}
NUMBERS = (64, 256, 1024, 4096, 8192)
ROW_CASES = tuple((name, bar, n) for name, bar in BAR.items() for n in NUMBERS)
SLOTS = 10**6

Calls = dict[str, Callable[[], object]]


def row_calls(loops: tuple[RowCopy, RowCopy] | None) -> Iterator[tuple[str, int, Calls]]:
    """Name, rows, and who does it; the C loop only where it could be compiled."""
    buffer = torch.zeros(SLOTS, 8, 128, dtype=torch.bfloat16)
    for name, _, n in ROW_CASES:
        loc = random_slots(1, SLOTS, n)
        rows = torch.randn(n, 8, 128).to(torch.bfloat16)
        if name == "move":
            yield name, n, _moves(buffer, loc)
        else:
            yield name, n, _copies(name, buffer, loc, rows, loops)


def _copies(
    name: str,
    buffer: Tensor,
    loc: Iterator[Tensor],
    rows: Tensor,
    loops: tuple[RowCopy, RowCopy] | None,
) -> Calls:
    if name == "store":
        calls: Calls = {"kvproto": lambda: store_rows(buffer, next(loc), rows)}
        if loops is not None:
            scatter = loops[0]
            calls[C_LOOP] = lambda: scatter(buffer, next(loc), rows)
        return calls
    calls = {"kvproto": lambda: gather_rows(buffer, next(loc))}
    if loops is not None:
        copy_out = loops[1]
        calls[C_LOOP] = lambda: copy_out(buffer, next(loc), torch.empty_like(rows))
    return calls


def _moves(buffer: Tensor, loc: Iterator[Tensor]) -> Calls:
    def indexing() -> None:
        src, dst = next(loc), next(loc)
        buffer[dst] = buffer[src]

    return {"kvproto": lambda: move_rows(buffer, next(loc), next(loc)), INDEXING: indexing}
