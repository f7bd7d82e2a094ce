"""Write several kinds of row to the same locations of tiled buffers, as bytes of fp8."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from .apart import apart
from .fp8 import Scale
from .locations import check_locations
from .row_tiles import RowTiles, check_tiled
from .store_fp8_row_sets import scale_on
from .store_tiled_rows import check_tiled_rows, store_tiled_rows
from .to_stored import to_stored
from .triton_devices import served_by_triton

__all__ = ["TiledSet", "store_fp8_tiled_row_sets"]

TiledSet: TypeAlias = tuple[Tensor, RowTiles, Tensor, Scale]
"""A target, where its rows lie, rows as they are given, and their scale."""


def store_fp8_tiled_row_sets(loc: Tensor, sets: Sequence[TiledSet], dtype: torch.dtype) -> None:
    """`store_tiled_rows` of `to_stored(rows, dtype, scale)`, for every set.

    Targets are uint8, `dtype` is what their bytes mean; a Triton kernel quantises where it stores,
    all sets in one launch, rows of bfloat16, float16 and float32; rows in the storage of any target
    are copied first.

    :raises ValueError: for targets and rows as in `store_tiled_rows`, or a scale that `to_fp8`
        refuses; nothing is written.
    :raises TypeError: for rows of a dtype that the kernel does not serve.
    :raises IndexError: on the CPU, for a location past the last row; nothing is written.
    """
    if not served_by_triton(loc):
        stored = [to_stored(rows, dtype, scale) for _, _, rows, scale in sets]
        for (target, tiles, *_), rows in zip(sets, stored, strict=True):
            store_tiled_rows(target, loc, rows, tiles)
        return
    from .triton.launch import run
    from .triton.store_fp8_row_sets import plan_store_fp8_row_sets

    for target, tiles, rows, _ in sets:
        check_tiled("store_fp8_tiled_row_sets", target, tiles)
        check_locations(loc, tiles.slots_of(target))
        check_tiled_rows(target, loc.shape[0], rows, torch.uint8, tiles)
    targets = [target for target, *_ in sets]
    given = [(target, apart(rows, *targets)) for target, _, rows, _ in sets]
    scales = [scale_on(loc.device, scale) for *_, scale in sets]
    run(plan_store_fp8_row_sets(loc, given, scales, dtype, [tiles for _, tiles, *_ in sets]))
