"""Copy whole pages into pages whose axes are tiled otherwise."""

from __future__ import annotations

import torch
from torch import Tensor

from .locations import check_locations
from .row_tiles import RowTiles, check_tiled
from .triton_devices import served_by_triton

__all__ = ["convert_pages"]

_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def convert_pages(
    source: Tensor,
    source_tiles: RowTiles,
    source_pages: Tensor,
    target: Tensor,
    target_tiles: RowTiles,
    target_pages: Tensor,
) -> None:
    """Page `source_pages[i]` to `target_pages[i]`, each row the same in its logical order.

    Both are dense, all pages of a layer, of one dtype, page size and number of elements in a row,
    and share no memory. Pages are `[n]`, int32 or int64, each target named once; what goes to page
    0 or below is dropped, and what comes from below 0 is page 0. Fixed-shape; a kernel drops pages
    past the end too.

    :raises ValueError: where they differ in more than tiles, for another number of sources than
        of targets, and for pages that lie apart or are not whole; nothing is written.
    :raises IndexError: on the CPU, for a page past the last; nothing is written.
    """
    _check(source, source_tiles, target, target_tiles)
    if source_pages.shape != target_pages.shape:
        raise ValueError(
            f"convert_pages: {tuple(source_pages.shape)} sources for {tuple(target_pages.shape)} "
            "targets: must be as many; nothing was written"
        )
    check_locations(source_pages, source.numel() // source_tiles.page_stride)
    check_locations(target_pages, target.numel() // target_tiles.page_stride)
    if served_by_triton(target):
        from .triton.convert_pages import plan_convert_pages
        from .triton.launch import run

        pages = source_pages.contiguous(), target_pages.contiguous()
        run(plan_convert_pages(source, source_tiles, pages[0], target, target_tiles, pages[1]))
        return
    old, new = (_pages(each) for each in ((source, source_tiles), (target, target_tiles)))
    rows = old.index_select(0, source_pages.clamp(min=0).to(torch.int64))
    converted = rows.new_empty(rows.shape[0], new.shape[1])
    into = _tiled(converted, target_tiles)
    into.copy_(_tiled(rows, source_tiles).reshape(into.shape))
    kept = torch.where((target_pages > 0).unsqueeze(1), converted, new[:1])
    new.index_copy_(0, target_pages.clamp(min=0).to(torch.int64), kept)


def _pages(given: tuple[Tensor, RowTiles]) -> Tensor:
    """`[pages, elements]`, as integers: they are copied faster than bf16, and fp8 not at all."""
    buffer, tiles = given
    return buffer.view(_BITS[buffer.itemsize]).view(-1, tiles.page_stride)


def _tiled(pages: Tensor, tiles: RowTiles) -> Tensor:
    """A view whose axes, in order, are the pages and the tiles of tokens and of rows."""
    levels = ((pages.shape[0], tiles.page_stride), *tiles.token, *tiles.row)
    return pages.as_strided([extent for extent, _ in levels], [stride for _, stride in levels])


def _check(source: Tensor, old: RowTiles, target: Tensor, new: RowTiles) -> None:
    kinds = [
        (tensor.dtype, tiles.page_size, tiles.row_elements)
        for tensor, tiles in ((source, old), (target, new))
    ]
    if kinds[0] != kinds[1]:
        have, want = (f"{dtype} pages of {size} rows of {row}" for dtype, size, row in kinds)
        raise ValueError(f"convert_pages: {have} for {want}: must be alike; nothing was written")
    for tensor, tiles in ((source, old), (target, new)):
        if tiles.page_stride != tiles.page_size * tiles.row_elements:
            raise ValueError(
                f"convert_pages: pages of {tiles.page_size * tiles.row_elements} elements lie "
                f"{tiles.page_stride} apart, served are dense ones; nothing was written"
            )
        check_tiled("convert_pages", tensor, tiles)
