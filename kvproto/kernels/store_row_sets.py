"""Write several kinds of row to the same locations at once."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .apart import apart
from .locations import check_locations, is_location_list
from .on_host import has_bytes, on_host
from .one_row import store_one
from .row_items import store_items
from .row_words import row_words
from .triton_devices import served_by_triton

__all__ = ["check_rows", "store_row_sets"]


def store_row_sets(loc: Tensor, sets: Sequence[tuple[Tensor, Tensor]]) -> None:
    """`target[loc[i]] = rows[i]` for every `(target, rows)` and every `loc[i]` of at least 1.

    The same as `store_rows` for each, with what follows from the locations worked out once.
    Targets may differ in width and dtype; of duplicate locations a row may win in one target
    that loses in another. A Triton kernel does it in one launch, its target rows must be dense;
    rows in the storage of their own target are copied first. None lie in that of another's.

    :raises ValueError: for rows of another number, trailing shape or dtype, or a target that the
        kernel does not serve; nothing is written.
    :raises IndexError: on the CPU, for a location past the last row; nothing is written.
    """
    if _stored_on_host(loc, sets):
        return
    for target, rows in sets:
        check_locations(loc, target.shape[0])
        check_rows(loc.shape[0], target, rows, rows.dtype)
    if served_by_triton(loc):
        _launch(loc, sets)
        return
    kept, index = loc > 0, loc.clamp(min=0).to(torch.int64)
    for target, rows in sets:
        into, given = row_words(target, rows)
        mask = kept.view(-1, *(1,) * (given.dim() - 1))
        into.index_copy_(0, index, torch.where(mask, given, torch.zeros_like(given[:1])))


def _stored_on_host(loc: Tensor, sets: Sequence[tuple[Tensor, Tensor]]) -> bool:
    if not is_location_list(loc) or not on_host(loc, *[target for target, _ in sets]):
        return False
    n, slots = loc.shape[0], sets[0][0].shape[0]
    for target, rows in sets:
        if not slots or target.shape[0] != slots or rows.dtype != target.dtype:
            return False
        if rows.shape != (n, *target.shape[1:]) or not has_bytes(rows):
            return False
    if n == 1:
        store_one(int(loc), slots, sets)
    elif n:
        store_items(loc, slots, sets)
    return True


def _launch(loc: Tensor, sets: Sequence[tuple[Tensor, Tensor]]) -> None:
    from .triton.launch import run
    from .triton.store_row_sets import plan_store_row_sets

    run(plan_store_row_sets(loc, [(target, apart(rows, target)) for target, rows in sets]))


def check_rows(n: int, target: Tensor, rows: Tensor, dtype: torch.dtype) -> None:
    """Whether rows can be stored: as many as there are locations, of the target's shape and dtype.

    `dtype` is that of the rows as they are stored.

    :raises ValueError: naming what they are and must be.
    """
    shape = (n, *target.shape[1:])
    if rows.shape != shape or dtype != target.dtype:
        raise ValueError(
            f"rows are {dtype} {tuple(rows.shape)}, must be {target.dtype} {shape} for {n} "
            f"locations of a target {tuple(target.shape)}; nothing was written"
        )
