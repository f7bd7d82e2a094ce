"""Copy rows between locations of the same buffer, or of each of several."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from .gather_rows import gather_rows
from .locations import check_pairs, is_location_list
from .on_host import on_host
from .one_row import move_one
from .row_items import move_items
from .store_rows import store_rows
from .triton_devices import served_by_triton

__all__ = ["move_row_sets", "move_rows"]


def move_rows(buffer: Tensor, tgt_loc: Tensor, src_loc: Tensor) -> None:
    """`buffer[tgt_loc[i]] = buffer[src_loc[i]]`, all sources read before any target is written.

    Both are `[n]`, int32 or int64, in range. Pairs whose target is 0 or below are dropped; a
    source of 0 or below reads the reserved slot, which is zero.

    :raises ValueError: for another number of sources than of targets; nothing is moved.
    :raises IndexError: on the CPU, for a location past the last row; nothing is moved.
    """
    check_pairs(tgt_loc, src_loc)
    if not _moved_on_host(buffer, tgt_loc, src_loc):
        store_rows(buffer, tgt_loc, gather_rows(buffer, src_loc))


def move_row_sets(buffers: Sequence[Tensor], tgt_loc: Tensor, src_loc: Tensor) -> None:
    """`move_rows` of each buffer; they are of one device, and may differ in width and dtype.

    Triton kernels do up to 256 pairs in one launch for all buffers of a row's width, and more in
    two, out into other memory and back, or two for every 256 MiB that move. They drop pairs of a
    location past the last row.

    :raises ValueError: as `move_rows`, and for a buffer whose rows are not dense, which the kernel
        does not serve.
    :raises IndexError: as `move_rows`; buffers before the one that is too short were moved.
    """
    check_pairs(tgt_loc, src_loc)
    if not served_by_triton(tgt_loc):
        for buffer in buffers:
            move_rows(buffer, tgt_loc, src_loc)
        return
    from .triton.launch import run
    from .triton.move_row_sets import plan_move_row_sets

    for launch in plan_move_row_sets(buffers, tgt_loc.contiguous(), src_loc.contiguous()):
        run(launch)


def _moved_on_host(buffer: Tensor, tgt_loc: Tensor, src_loc: Tensor) -> bool:
    if not on_host(buffer, tgt_loc, src_loc):
        return False
    if not (is_location_list(tgt_loc) and is_location_list(src_loc)):
        return False
    n = tgt_loc.shape[0] if buffer.nbytes else 0
    if n == 1:
        move_one(buffer, int(tgt_loc), int(src_loc))
    elif n:
        move_items(buffer, tgt_loc, src_loc)
    return True
