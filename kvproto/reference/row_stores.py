"""A buffer and where its rows are: what leaves write, move and copy through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from kvproto.kernels import (
    FP8_DTYPES,
    RowTiles,
    clear_tiled_row,
    gather_rows,
    gather_tiled_rows,
    move_row_sets,
    move_tiled_row_sets,
    prepare_moves,
    store_fp8_row_sets,
    store_fp8_tiled_row_sets,
    store_row_sets,
    store_rows,
    store_tiled_rows,
    to_stored,
)
from kvproto.kernels.fp8 import Scale

__all__ = ["Given", "RowStore", "SlotRows", "TiledRows", "move_all", "prepare_all", "store_both"]


@dataclass(frozen=True, slots=True)
class SlotRows:
    """A buffer `[slots, ...]`: a row is one index of its first dimension, however far apart."""

    buffer: Tensor

    @property
    def row_shape(self) -> tuple[int, ...]:
        """The shape of one row, as gathered."""
        return tuple(self.buffer.shape[1:])

    def store(self, loc: Tensor, rows: Tensor) -> None:
        """Put rows at locations; 0 and below are dropped."""
        store_rows(self.buffer, loc, rows)

    def gather(self, loc: Tensor) -> Tensor:
        """The rows at locations, `[n, ...]`, fresh."""
        return gather_rows(self.buffer, loc)

    def clear_reserved(self) -> None:
        """Zero the row of slot 0."""
        self.buffer[0].zero_()


@dataclass(frozen=True, slots=True)
class TiledRows:
    """A dense buffer whose rows lie in tiles of its pages."""

    buffer: Tensor
    tiles: RowTiles

    @property
    def row_shape(self) -> tuple[int, ...]:
        """The shape of one row, as gathered."""
        return (self.tiles.row_elements,)

    def store(self, loc: Tensor, rows: Tensor) -> None:
        """Put rows at locations; 0 and below are dropped."""
        store_tiled_rows(self.buffer, loc, rows, self.tiles)

    def gather(self, loc: Tensor) -> Tensor:
        """The rows at locations, `[n, elements]`, fresh."""
        return gather_tiled_rows(self.buffer, loc, self.tiles)

    def clear_reserved(self) -> None:
        """Zero the row of slot 0."""
        clear_tiled_row(self.buffer, self.tiles)


RowStore: TypeAlias = SlotRows | TiledRows


class Given(NamedTuple):
    """Rows for one side of a leaf, `[n, heads, width]` of any float dtype, under a scale."""

    store: RowStore
    rows: Tensor
    scale: Scale


def store_both(loc: Tensor, keys: Given, values: Given, dtype: torch.dtype) -> None:
    """Put the rows of both sides at the same locations, in `dtype`; 0 and below are dropped."""
    k_store, v_store = keys.store, values.store
    if isinstance(k_store, TiledRows) and isinstance(v_store, TiledRows) and dtype in FP8_DTYPES:
        tiled = (
            (k_store.buffer, k_store.tiles, *keys[1:]),
            (v_store.buffer, v_store.tiles, *values[1:]),
        )
        store_fp8_tiled_row_sets(loc, tiled, dtype)
    elif not (isinstance(k_store, SlotRows) and isinstance(v_store, SlotRows)):
        k_rows, v_rows = (to_stored(each.rows, dtype, each.scale) for each in (keys, values))
        k_store.store(loc, k_rows)
        v_store.store(loc, v_rows)
    elif dtype in FP8_DTYPES:
        sides = ((k_store.buffer, *keys[1:]), (v_store.buffer, *values[1:]))
        store_fp8_row_sets(loc, sides, dtype)
    else:
        k_rows, v_rows = to_stored(keys.rows, dtype), to_stored(values.rows, dtype)
        store_row_sets(loc, ((k_store.buffer, k_rows), (v_store.buffer, v_rows)))


def move_all(stores: Sequence[RowStore], tgt_loc: Tensor, src_loc: Tensor) -> None:
    """Copy rows between locations in every buffer; all sources are read first."""
    for tiles, buffers in _alike(stores).items():
        if tiles is None:
            move_row_sets(buffers, tgt_loc, src_loc)
        else:
            move_tiled_row_sets(buffers, tgt_loc, src_loc, tiles)


def prepare_all(stores: Sequence[RowStore]) -> None:
    """Let `move_all` be captured in a graph before it was ever called."""
    for tiles, buffers in _alike(stores).items():
        prepare_moves(buffers, tiles)


def _alike(stores: Sequence[RowStore]) -> dict[RowTiles | None, list[Tensor]]:
    """Buffers by how their rows lie: None for a row a slot."""
    found: dict[RowTiles | None, list[Tensor]] = {}
    for store in stores:
        tiles = store.tiles if isinstance(store, TiledRows) else None
        found.setdefault(tiles, []).append(store.buffer)
    return found
