"""Index keys with their scales: into pages, out of them, and from slot to slot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from benchmarks.kernel_cases.case import Case, Inputs, Place
from benchmarks.kernel_cases.models import MODELS, index_of, layers_of
from benchmarks.kernel_cases.rows import Moved, index_rows, plain_rows
from kvproto.kernels import (
    IndexLayout,
    gather_index_keys,
    index_page_bytes,
    load_index_keys,
    move_index_key_sets,
    store_index_keys,
    store_quantised_index_keys,
)
from kvproto.kernels.index_page import KEY_TILE, SCALE_BYTES, key_tile
from kvproto.kernels.triton.gather_index_keys import plan_gather_index_keys
from kvproto.kernels.triton.launch import Launch
from kvproto.kernels.triton.load_index_keys import plan_load_index_keys
from kvproto.kernels.triton.move_index_keys import plan_move_index_keys
from kvproto.kernels.triton.store_index_keys import plan_store_index_keys
from kvproto.kernels.triton.store_quantised_index_keys import plan_store_quantised_index_keys

__all__ = ["cases"]


class _Pages(NamedTuple):
    """How the keys of a model lie."""

    name: str
    width: int
    size: int
    layout: IndexLayout
    layers: int

    def of(self, place: Place) -> Tensor:
        """Pages for all slots and one more; slot 0 is zero."""
        count, keys = place.slots // self.size + 2, self.size * self.width
        pages = place.whole(count, index_page_bytes(self.size, self.width), dtype=torch.uint8)
        tile = key_tile(self.size, self.width, self.layout)
        pieces = pages[0, : tile * self.width].view(-1, tile, KEY_TILE if tile > 1 else self.width)
        pieces[:, 0].zero_()
        pages[0, keys : keys + SCALE_BYTES].zero_()
        return pages

    def rows(self, place: Place) -> tuple[Tensor, Tensor]:
        """Keys and scales of all tokens."""
        widths = self.width, SCALE_BYTES
        keys, scales = (place.rows(width, dtype=torch.uint8) for width in widths)
        return keys, scales


def cases() -> Iterator[Case]:
    """Pages of 64, those of 64 in tiles, and pages of 1, whose keys are aligned to 4 bytes."""
    for model in MODELS:
        if index := index_of(model):
            width, layers = index.head_dim, layers_of(model)
            yield from _of(_Pages(model, width, 64, "token_rows", layers))
            yield from _of(_Pages(f"{model}, preshuffled", width, 64, "preshuffled", layers))
            yield from _of(_Pages(f"{model}, pages of 1", width, 1, "token_rows", layers))


def _of(kept: _Pages) -> Iterator[Case]:
    def stored(place: Place) -> Inputs:
        return kept.of(place), place.locations(), *kept.rows(place), kept.layout

    yield Case(
        operation="store_index_keys",
        shape=kept.name,
        inputs=stored,
        plan=_plan_store,
        call=store_index_keys,
        moves=_moves_rows,
        rows=_rows_stored,
        plain=_plain_store,
    )
    yield Case(
        operation="store_quantised_index_keys",
        shape=kept.name,
        inputs=lambda place: _fresh(kept, place),
        plan=_plan_quantised,
        call=_store_quantised,
        moves=_moves_fresh,
        rows=_rows_fresh,
    )
    yield Case(
        operation="load_index_keys",
        shape=kept.name,
        inputs=stored,
        plan=_plan_load,
        call=_load,
        moves=_moves_rows,
        rows=_rows_loaded,
        plain=_plain_load,
    )
    yield Case(
        operation="gather_index_keys",
        shape=kept.name,
        inputs=lambda place: _batch(kept, place),
        plan=_plan_gather,
        call=_gather,
        moves=_moves_batch,
        rows=_rows_gathered,
        at_most=1.07,
        why="the number of a page is read for each of its keys",
    )
    yield Case(
        operation="move_index_keys",
        shape=kept.name,
        inputs=lambda place: _moved(kept, place),
        plan=_plan_move,
        call=move_index_key_sets,
        moves=_moves_layers,
        rows=_rows_moved,
        tokens=(16, 200),
        bulk=256,
        at_most=1.07,
        why="locations are read again for every layer",
    )
    yield Case(
        operation="move_index_keys",
        shape=f"{kept.name}, staged",
        inputs=lambda place: _moved(kept, place),
        plan=_plan_move,
        call=move_index_key_sets,
        moves=_moves_layers,
        rows=_rows_staged,
        tokens=(1000,),
        at_most=2.3,
        why="all is read and written twice, and locations for each layer's keys and scales",
        bulk=1000,
    )


def _batch(kept: _Pages, place: Place) -> Inputs:
    """Three requests, one of them empty, with room for more; pages in no order."""
    n, at = place.tokens, place.device
    lens = torch.tensor([n // 3, 0, n - n // 3], dtype=torch.int32, device=at)
    pages, columns = kept.of(place), n // kept.size + 2
    numbers = torch.arange(3 * columns, dtype=torch.int32, device=at).view(3, columns)
    table = 1 + numbers * 7 % max(1, pages.shape[0] - 1)
    if place.padding:
        table[0, 0] = -1
    return pages, lens, table, *kept.rows(place), kept.layout


def _moved(kept: _Pages, place: Place) -> Inputs:
    """Half of the sources are targets of other pairs."""
    layers = [kept.of(place) for _ in range(kept.layers if place.device == "meta" else 2)]
    targets, sources = place.locations(), place.locations()
    sources[::2] = targets.flip(0)[::2]
    return layers, targets, sources, kept.width, kept.layout


def _fresh(kept: _Pages, place: Place) -> Inputs:
    """Keys in bf16, beside another row of the same projection; scales of powers of two in tiles."""
    rows = place.rows(2 * kept.width, dtype=torch.bfloat16)[:, kept.width :]
    return kept.of(place), place.locations(), rows, kept.layout == "preshuffled", kept.layout


def _plan_quantised(
    pages: Tensor, loc: Tensor, rows: Tensor, round_scale: bool, layout: IndexLayout
) -> list[Launch]:
    return [plan_store_quantised_index_keys(pages, loc, rows, round_scale, layout)]


def _store_quantised(
    pages: Tensor, loc: Tensor, rows: Tensor, round_scale: bool, layout: IndexLayout
) -> None:
    store_quantised_index_keys(pages, loc, rows, round_scale=round_scale, layout=layout)


def _moves_fresh(
    pages: Tensor, loc: Tensor, rows: Tensor, round_scale: bool, layout: IndexLayout
) -> int:
    return loc.nbytes + rows.nbytes + rows.shape[0] * (rows.shape[1] + SCALE_BYTES)


def _plan_store(
    pages: Tensor, loc: Tensor, keys: Tensor, scales: Tensor, layout: IndexLayout
) -> list[Launch]:
    return [plan_store_index_keys(pages, loc, keys, scales, layout)]


def _plan_load(
    pages: Tensor, loc: Tensor, keys: Tensor, scales: Tensor, layout: IndexLayout
) -> list[Launch]:
    return [plan_load_index_keys(pages, loc, keys, scales, layout)]


def _plan_gather(
    pages: Tensor, lens: Tensor, table: Tensor, keys: Tensor, scales: Tensor, layout: IndexLayout
) -> list[Launch]:
    return [plan_gather_index_keys(pages, lens, table, keys, scales, layout)]


def _plan_move(
    layers: list[Tensor], targets: Tensor, sources: Tensor, width: int, layout: IndexLayout
) -> list[Launch]:
    return list(plan_move_index_keys(layers, targets, sources, width, layout))


def _load(pages: Tensor, loc: Tensor, keys: Tensor, scales: Tensor, layout: IndexLayout) -> None:
    got = load_index_keys(pages, loc, keys.shape[1], layout)
    for into, rows in zip((keys, scales), got, strict=True):
        into.copy_(rows)


def _gather(
    pages: Tensor, lens: Tensor, table: Tensor, keys: Tensor, scales: Tensor, layout: IndexLayout
) -> None:
    n, width = keys.shape
    size = pages.shape[1] // (width + SCALE_BYTES)
    got = gather_index_keys(pages, lens, table, n, size, width, layout)
    for into, rows in zip((keys, scales), got, strict=True):
        into.copy_(rows)


def _moves_rows(
    pages: Tensor, loc: Tensor, keys: Tensor, scales: Tensor, layout: IndexLayout
) -> int:
    return loc.nbytes + 2 * (keys.nbytes + scales.nbytes)


def _moves_batch(
    pages: Tensor, lens: Tensor, table: Tensor, keys: Tensor, scales: Tensor, layout: IndexLayout
) -> int:
    """With the page numbers of as many pages as all keys fill."""
    n, width = keys.shape
    filled = n * (width + SCALE_BYTES) // pages.shape[1]
    return lens.nbytes + filled * table.itemsize + 2 * (keys.nbytes + scales.nbytes)


def _moves_layers(
    layers: list[Tensor], targets: Tensor, sources: Tensor, width: int, layout: IndexLayout
) -> int:
    keys = len(layers) * targets.shape[0]
    return targets.nbytes + sources.nbytes + 2 * keys * (width + SCALE_BYTES)


def _plain_store(
    pages: Tensor, loc: Tensor, keys: Tensor, scales: Tensor, layout: IndexLayout
) -> None:
    """Keys alone, as if each had its scale beside it."""
    tokens = pages.view(-1, keys.shape[1] + SCALE_BYTES)
    tokens[:, : keys.shape[1]].index_put_((loc,), keys)


def _plain_load(
    pages: Tensor, loc: Tensor, keys: Tensor, scales: Tensor, layout: IndexLayout
) -> None:
    """As if each key had its scale beside it."""
    pages.view(-1, keys.shape[1] + SCALE_BYTES).index_select(0, loc)


def _rows_stored(
    pages: Tensor, loc: Tensor, keys: Tensor, scales: Tensor, layout: IndexLayout
) -> Moved:
    return Moved(plain_rows([keys, scales]), index_rows(pages, keys.shape[1], layout))


def _rows_loaded(
    pages: Tensor, loc: Tensor, keys: Tensor, scales: Tensor, layout: IndexLayout
) -> Moved:
    return Moved(index_rows(pages, keys.shape[1], layout), plain_rows([keys, scales]))


def _rows_fresh(
    pages: Tensor, loc: Tensor, rows: Tensor, round_scale: bool, layout: IndexLayout
) -> Moved:
    return Moved(plain_rows([rows]), index_rows(pages, rows.shape[1], layout))


def _rows_gathered(
    pages: Tensor, lens: Tensor, table: Tensor, keys: Tensor, scales: Tensor, layout: IndexLayout
) -> Moved:
    return _rows_loaded(pages, lens, keys, scales, layout)


def _rows_moved(
    layers: list[Tensor], targets: Tensor, sources: Tensor, width: int, layout: IndexLayout
) -> Moved:
    rows = [part for pages in layers for part in index_rows(pages, width, layout)]
    return Moved(rows, rows)


def _rows_staged(
    layers: list[Tensor], targets: Tensor, sources: Tensor, width: int, layout: IndexLayout
) -> list[Moved]:
    """Keys are moved by two launches, then scales by two."""
    keys, scales = zip(*(index_rows(pages, width, layout) for pages in layers), strict=True)
    return [Moved(rows, rows) for rows in (keys, keys, scales, scales)]
