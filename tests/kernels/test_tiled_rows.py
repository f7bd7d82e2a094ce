"""Rows in tiled pages, against plain indexing of the same buffers by their shapes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from kvproto.kernels import (
    RowTiles,
    convert_pages,
    gather_tiled_rows,
    move_tiled_row_sets,
    store_tiled_rows,
)
from tests.kernels.conftest import INTERPRETED

EXAMPLES = 5 if INTERPRETED else 25

pytestmark = pytest.mark.usefixtures("host_or_device")

PAGES, PAGE, HEADS, WIDTH, X = 3, 8, 3, 8, 4
SLOTS = PAGES * PAGE
INDEX_DTYPES = st.sampled_from([torch.int32, torch.int64])
LOCATIONS = st.lists(st.integers(-3, SLOTS - 1), max_size=12)

Door = Callable[[Tensor], Tensor]
"""A view of a flat buffer as `[pages, page, heads, width]`, by shape and permutation alone."""


def _nhd(flat: Tensor) -> Tensor:
    return flat.view(PAGES, PAGE, HEADS, WIDTH)


def _hnd(flat: Tensor) -> Tensor:
    return flat.view(PAGES, HEADS, PAGE, WIDTH).transpose(1, 2)


def _packed_keys(flat: Tensor) -> Tensor:
    blocks = flat.view(PAGES, HEADS, WIDTH // X, PAGE, X)
    return blocks.permute(0, 3, 1, 2, 4)


def _packed_values(flat: Tensor) -> Tensor:
    blocks = flat.view(PAGES, HEADS, PAGE // X, WIDTH, X)
    return blocks.permute(0, 2, 4, 1, 3)


ROW = HEADS * WIDTH
LAYOUTS: dict[str, tuple[Door, RowTiles, int]] = {
    "nhd": (_nhd, RowTiles(PAGE * ROW, ((PAGE, ROW),), ((HEADS, WIDTH), (WIDTH, 1))), ROW),
    "hnd": (
        _hnd,
        RowTiles(PAGE * ROW, ((PAGE, WIDTH),), ((HEADS, PAGE * WIDTH), (WIDTH, 1))),
        WIDTH,
    ),
    "packed keys": (
        _packed_keys,
        RowTiles(
            PAGE * ROW,
            ((PAGE, X),),
            ((HEADS, PAGE * WIDTH), (WIDTH // X, PAGE * X), (X, 1)),
        ),
        X,
    ),
    "packed values": (
        _packed_values,
        RowTiles(
            PAGE * ROW,
            ((PAGE // X, WIDTH * X), (X, 1)),
            ((HEADS, PAGE * WIDTH), (WIDTH, X)),
        ),
        1,
    ),
}
"""The view, the tiles, and how many elements of a row lie together."""

layouts = pytest.mark.parametrize("layout", LAYOUTS)


def rows_of(n: int) -> Tensor:
    return (1 + torch.arange(n * ROW)).view(n, HEADS, WIDTH).float()


def seen(flat: Tensor, layout: str) -> Tensor:
    """`[slots, heads, width]`, a copy."""
    return LAYOUTS[layout][0](flat).reshape(SLOTS, HEADS, WIDTH).clone()


@layouts
@settings(deadline=None, max_examples=EXAMPLES)
@given(LOCATIONS, INDEX_DTYPES)
def test_store_follows_the_model(layout: str, locations: list[int], dtype: torch.dtype) -> None:
    flat, rows = torch.zeros(SLOTS * ROW), rows_of(len(locations))
    store_tiled_rows(flat, torch.tensor(locations, dtype=dtype), rows, LAYOUTS[layout][1])
    written: dict[int, list[Tensor]] = {}
    for location, row in zip(locations, rows, strict=True):
        if location >= 1:
            written.setdefault(location, []).append(row)
    for slot, found in enumerate(seen(flat, layout)):
        candidates = written.get(slot, [torch.zeros(HEADS, WIDTH)])
        assert any(torch.equal(found, row) for row in candidates)


@layouts
@settings(deadline=None, max_examples=EXAMPLES)
@given(LOCATIONS, INDEX_DTYPES)
def test_gather_follows_the_model(layout: str, locations: list[int], dtype: torch.dtype) -> None:
    flat = torch.arange(SLOTS * ROW).float()
    flat[: PAGE * ROW] = 0  # the reserved page
    stored = seen(flat, layout)
    found = gather_tiled_rows(flat, torch.tensor(locations, dtype=dtype), LAYOUTS[layout][1])
    assert found.shape == (len(locations), ROW)
    for row, location in zip(found, locations, strict=True):
        assert torch.equal(row.view(HEADS, WIDTH), stored[max(location, 0)])


@layouts
@settings(deadline=None, max_examples=EXAMPLES)
@given(st.data(), INDEX_DTYPES)
def test_move_reads_all_sources_first(layout: str, data: st.DataObject, dtype: torch.dtype) -> None:
    targets = data.draw(st.lists(st.integers(-1, SLOTS - 1), max_size=8, unique=True))
    n = len(targets)
    sources = data.draw(st.lists(st.integers(0, SLOTS - 1), min_size=n, max_size=n))
    tiles, layers = LAYOUTS[layout][1], [torch.zeros(SLOTS * ROW) for _ in "ab"]
    for layer, flat in enumerate(layers):
        store_tiled_rows(flat, torch.arange(SLOTS), rows_of(SLOTS) + layer, tiles)
    before = [seen(flat, layout) for flat in layers]
    locations = torch.tensor(targets, dtype=dtype), torch.tensor(sources).to(dtype)
    move_tiled_row_sets(layers, *locations, tiles)
    for flat, was in zip(layers, before, strict=True):
        expected = {t: was[s] for t, s in zip(targets, sources, strict=True) if t >= 1}
        for slot, found in enumerate(seen(flat, layout)):
            assert torch.equal(found, expected.get(slot, was[slot]))


@layouts
def test_the_longest_run_is_moved_at_a_time(layout: str) -> None:
    """Otherwise copies are as slow as element by element, and only a benchmark would tell."""
    _, tiles, run = LAYOUTS[layout]
    assert (tiles.unit, tiles.page_size) == (run, PAGE)


def test_strided_rows_are_stored_like_dense_ones() -> None:
    tiles, rows = LAYOUTS["packed values"][1], rows_of(4)
    flat, other = torch.zeros(SLOTS * ROW), torch.zeros(SLOTS * ROW)
    loc = torch.tensor([1, 9, 2, 9, 3, 9, 4, 9])
    fused = torch.cat([rows, rows], dim=-1)
    store_tiled_rows(flat, loc[::2], fused[..., WIDTH:], tiles)
    store_tiled_rows(other, loc[::2].clone(), rows, tiles)
    assert torch.equal(flat, other)
    # Of a row that is a single tile of heads nothing makes the copy dense but the call itself.
    blocked = RowTiles(PAGE * WIDTH, ((PAGE, 2),), ((WIDTH // 2, PAGE * 2), (2, 1)))
    one, turned = torch.zeros(SLOTS * WIDTH), torch.zeros(SLOTS * WIDTH)
    columns = rows[:, 0].t().contiguous().t()
    store_tiled_rows(one, loc[::2], rows[:, 0], blocked)
    store_tiled_rows(turned, loc[::2], columns, blocked)
    assert torch.equal(one, turned)
    assert one.any()


def test_pages_may_lie_apart_and_past_32_bits() -> None:
    tiles = RowTiles(1 << 31, ((PAGE, WIDTH),), ((HEADS, PAGE * WIDTH), (WIDTH, 1)))
    found = tiles.units(torch.tensor([2 * PAGE + 1], dtype=torch.int32))
    first = (2 << 31) // WIDTH + 1
    assert found.tolist() == [first, first + PAGE, first + 2 * PAGE]


@pytest.mark.parametrize("into", LAYOUTS)
@layouts
@settings(deadline=None, max_examples=EXAMPLES // 5)
@given(st.permutations(range(-1, PAGES)), INDEX_DTYPES)
def test_converted_pages_hold_the_same_rows(
    layout: str, into: str, targets: list[int], dtype: torch.dtype
) -> None:
    """What goes to page 0 or nowhere is dropped; what comes from there is page 0."""
    old, new = torch.arange(1.0, SLOTS * ROW + 1), -torch.arange(1.0, SLOTS * ROW + 1)
    given_rows, before = seen(old, layout), seen(new, into)
    sources = torch.tensor([2, -1, 1, 2], dtype=dtype)
    tiles = LAYOUTS[layout][1], LAYOUTS[into][1]
    convert_pages(old, tiles[0], sources, new, tiles[1], torch.tensor(targets, dtype=dtype))
    expected = before.view(PAGES, PAGE, HEADS, WIDTH).clone()
    for source, target in zip(sources.tolist(), targets, strict=True):
        if target > 0:
            expected[target] = given_rows.view(PAGES, PAGE, HEADS, WIDTH)[max(source, 0)]
    assert torch.equal(seen(new, into), expected.view(SLOTS, HEADS, WIDTH))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn, torch.uint8, torch.int64])
def test_pages_of_any_dtype_are_converted(dtype: torch.dtype) -> None:
    old = torch.arange(SLOTS * ROW).remainder(50).to(dtype)
    new, pages = torch.zeros(SLOTS * ROW).to(dtype), torch.tensor([1, 2])
    tiles = LAYOUTS["nhd"][1], LAYOUTS["packed values"][1]
    convert_pages(old, tiles[0], pages, new, tiles[1], pages)
    moved, rows = (
        seen(each.float(), layout) for each, layout in ((new, "packed values"), (old, "nhd"))
    )
    assert torch.equal(moved[PAGE:], rows[PAGE:])
    assert not moved[:PAGE].any()


def test_pages_that_are_not_alike_are_refused() -> None:
    old, new, one = torch.zeros(SLOTS * ROW), torch.ones(SLOTS * ROW), torch.tensor([1])
    tiles = LAYOUTS["nhd"][1]
    wider = RowTiles(PAGE * 2 * ROW, ((PAGE, 2 * ROW),), ((2 * ROW, 1),))
    with pytest.raises(
        ValueError, match=r"pages of 8 rows of 24 for torch\.float32 pages of 8 rows"
    ):
        convert_pages(old, tiles, one, new, wider, one)
    with pytest.raises(ValueError, match="must be alike"):
        convert_pages(old, tiles, one, new.bfloat16(), tiles, one)
    with pytest.raises(ValueError, match=r"\(1,\) sources for \(2,\) targets"):
        convert_pages(old, tiles, one, new, tiles, torch.tensor([1, 2]))
    apart = RowTiles(2 * PAGE * ROW, ((PAGE, ROW),), ((ROW, 1),))
    with pytest.raises(ValueError, match="lie 384 apart, served are dense ones"):
        convert_pages(old, apart, one, new, tiles, one)
    with pytest.raises(IndexError, match="past the last row 2"):
        convert_pages(old, tiles, one, new, tiles, torch.tensor([3]))
    assert (new == 1).all()
