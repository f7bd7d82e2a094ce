"""Keys and values of a token, quantised as they are stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from benchmarks.kernel_cases.case import Case, Inputs, Place
from benchmarks.kernel_cases.models import MODELS, Heads, heads_of
from benchmarks.kernel_cases.rows import Moved, moved, plain_rows, tiled_rows
from benchmarks.kernel_cases.tiled import Tiling, buffer_of
from kvproto.kernels import TiledSet, store_fp8_row_sets, store_fp8_tiled_row_sets
from kvproto.kernels.triton.launch import Launch
from kvproto.kernels.triton.store_fp8_row_sets import plan_store_fp8_row_sets
from kvproto.reference.row_layouts import RowKind, RowLayoutName

__all__ = ["cases"]

Sets = Sequence[tuple[Tensor, Tensor, Tensor | None]]
_KINDS: tuple[RowKind, ...] = ("key", "value")


def cases() -> Iterator[Case]:
    """Each model with keys and values by head under a scale; one in all formats, without too."""
    for model in MODELS:
        if heads := heads_of(model):
            yield _case(f"{model}, e4m3fn", heads, torch.float8_e4m3fn)
    for dtype in (torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz):
        name = str(dtype).partition("_")[2]
        yield _case(f"mistral, {name}", Heads(4, 128, 128), dtype)
        yield _case(f"mistral, {name} unscaled", Heads(4, 128, 128), dtype, scaled=False)
    yield _tiled("hnd")
    yield _tiled("vectorized_5d")


def _case(shape: str, heads: Heads, dtype: torch.dtype, *, scaled: bool = True) -> Case:
    def inputs(place: Place) -> Inputs:
        """Rows in bf16, slices of rows that hold queries too."""
        keys = heads.heads * heads.key
        fused = place.rows(4 * keys + keys + heads.heads * heads.value, dtype=torch.bfloat16)
        given = ((heads.key, fused[:, 4 * keys : 5 * keys]), (heads.value, fused[:, 5 * keys :]))
        sets = [
            (
                place.pool(heads.heads, width, dtype=torch.uint8),
                rows.view(-1, heads.heads, width),
                torch.full((), 0.0173, device=place.device) if scaled else None,
            )
            for width, rows in given
        ]
        return place.locations(), sets, dtype

    return Case(
        operation="store_fp8_row_sets",
        shape=shape,
        inputs=inputs,
        plan=_plan,
        call=store_fp8_row_sets,
        moves=_moves,
        rows=_rows,
        plain=_plain,
        goal=0.85,
        at_most=1.01 if scaled else 1.0,
        why="every program reads the scales" if scaled else "",
    )


def _tiled(layout: RowLayoutName) -> Case:
    tilings = [Tiling("mistral", layout, kind, 4, 128, torch.uint8) for kind in _KINDS]

    def inputs(place: Place) -> Inputs:
        """Rows in bf16, slices of rows that hold queries too."""
        fused = place.rows(6 * 4 * 128, dtype=torch.bfloat16)
        given = (fused[:, 4 * 512 : 5 * 512], fused[:, 5 * 512 :])
        sets = [
            (
                buffer_of(place, tiling),
                tiling.tiles,
                rows.view(-1, 4, 128),
                torch.full((), 0.0173, device=place.device),
            )
            for tiling, rows in zip(tilings, given, strict=True)
        ]
        return place.locations(), sets, torch.float8_e4m3fn

    return Case(
        operation="store_fp8_tiled_row_sets",
        shape=f"mistral, {layout}",
        inputs=inputs,
        plan=_plan_tiled,
        call=store_fp8_tiled_row_sets,
        moves=_moves_tiled,
        rows=_rows_tiled,
        tokens=(64,),
        at_most=1.01,
        why="every program reads the scales",
    )


def _plan(loc: Tensor, sets: Sets, dtype: torch.dtype) -> list[Launch]:
    pairs = [(target, rows) for target, rows, _ in sets]
    return [plan_store_fp8_row_sets(loc, pairs, [scale for *_, scale in sets], dtype)]


def _moves(loc: Tensor, sets: Sets, dtype: torch.dtype) -> int:
    scales = sum(4 for *_, scale in sets if scale is not None)
    rows = sum(rows.nbytes + rows.numel() * dtype.itemsize for _, rows, _ in sets)
    return loc.nbytes + rows + scales


def _plain(loc: Tensor, sets: Sets, dtype: torch.dtype) -> None:
    """Quantised before, so that it is the store alone."""
    for target, rows, _ in sets:
        target.index_put_((loc,), rows.to(dtype).view(torch.uint8))


def _rows(loc: Tensor, sets: Sets, dtype: torch.dtype) -> Moved:
    return moved((rows for _, rows, _ in sets), (target for target, *_ in sets))


def _plan_tiled(loc: Tensor, sets: Sequence[TiledSet], dtype: torch.dtype) -> list[Launch]:
    pairs = [(target, rows) for target, _, rows, _ in sets]
    scales, tiles = [scale for *_, scale in sets], [tiles for _, tiles, *_ in sets]
    return [plan_store_fp8_row_sets(loc, pairs, scales, dtype, tiles)]


def _moves_tiled(loc: Tensor, sets: Sequence[TiledSet], dtype: torch.dtype) -> int:
    rows = sum(rows.nbytes + rows.numel() * dtype.itemsize for _, _, rows, _ in sets)
    return loc.nbytes + rows + 4 * len(sets)


def _rows_tiled(loc: Tensor, sets: Sequence[TiledSet], dtype: torch.dtype) -> Moved:
    given = plain_rows(rows for _, _, rows, _ in sets)
    return Moved(given, [tiled_rows(target, tiles) for target, tiles, *_ in sets])
