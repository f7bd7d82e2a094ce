"""Copy rows of many buffers to host memory and back, without a launch and a wait for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from .copy_pages import gather_pages, scatter_pages
from .gather_rows import gather_rows
from .store_rows import store_rows
from .triton_devices import served_by_triton

__all__ = ["rows_from_host", "rows_to_host"]

_STAGED_BYTES = 256 << 20
"""Of rows that are gathered on the device at a time: it may have little memory left by then."""


def rows_to_host(buffers: Sequence[Tensor], loc: Tensor) -> tuple[Tensor, ...]:
    """`gather_rows` of each buffer, in host memory; waits for the device.

    Where kernels serve it, rows of buffers that are alike are gathered in one launch, layer after
    layer, and copied at once, or at least 256 MiB of them.

    :raises IndexError: on the CPU, for a location past the last row.
    """
    if not served_by_triton(loc):
        return tuple([gather_rows(buffer, loc).cpu() for buffer in buffers])
    held: dict[int, Tensor] = {}
    for numbers in _alike(buffers, loc.shape[0]):
        these = [buffers[number] for number in numbers]
        out = these[0].new_empty((len(these), loc.shape[0], 1, these[0][0].numel()))
        gather_pages(these, loc, out)
        shape = len(these), loc.shape[0], *these[0].shape[1:]
        held.update(zip(numbers, out.cpu().view(shape).unbind(0), strict=True))
    return tuple(held[number] for number in range(len(buffers)))


def rows_from_host(buffers: Sequence[Tensor], loc: Tensor, rows: Sequence[Tensor]) -> None:
    """`store_rows` of what `rows_to_host` gave; rows are `[n, ...]` for each buffer.

    Where kernels serve it, rows of buffers that are alike are copied at once and scattered in one
    launch, or at least 256 MiB of them.

    :raises ValueError: for rows of another number, shape or dtype; nothing of those alike is
        written.
    :raises IndexError: on the CPU, for a location past the last row; nothing is written there.
    """
    if not served_by_triton(loc):
        for buffer, given in zip(buffers, rows, strict=True):
            store_rows(buffer, loc, given.to(buffer.device))
        return
    for numbers in _alike(buffers, loc.shape[0]):
        these = [buffers[number] for number in numbers]
        given = torch.stack([rows[number] for number in numbers]).to(loc.device)
        scatter_pages(these, loc, given.view(len(these), loc.shape[0], 1, these[0][0].numel()))


def _alike(buffers: Sequence[Tensor], n: int) -> Iterator[list[int]]:
    """Numbers of buffers that one launch serves and whose rows may be staged together."""
    kinds: dict[object, list[int]] = {}
    for number, buffer in enumerate(buffers):
        kinds.setdefault((buffer.shape, buffer.stride(), buffer.dtype), []).append(number)
    for numbers in kinds.values():
        together = max(1, _STAGED_BYTES // max(1, n * buffers[numbers[0]][:1].nbytes))
        for first in range(0, len(numbers), together):
            yield numbers[first : first + together]
