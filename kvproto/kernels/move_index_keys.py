"""Copy index keys between slots of the same pages, or of each of several layers'."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from .index_arguments import check_index_loc, check_index_pages
from .index_items import move_index_items
from .index_page import IndexLayout
from .load_index_keys import load_index_keys
from .locations import check_pairs
from .on_host import on_host
from .store_index_keys import store_index_keys
from .triton_devices import served_by_triton

__all__ = ["move_index_key_sets", "move_index_keys"]


def move_index_keys(
    pages: Tensor,
    tgt_loc: Tensor,
    src_loc: Tensor,
    index_head_dim: int,
    layout: IndexLayout = "token_rows",
) -> None:
    """Key and scale of slot `src_loc[i]` to slot `tgt_loc[i]`, token by token across pages.

    All sources are read before any target is written. As `move_rows` otherwise; `pages` and
    `layout` as in `store_index_keys`.

    :raises ValueError: for another number of sources than of targets, and for pages as in
        `store_index_keys`; nothing is moved.
    """
    check_pairs(tgt_loc, src_loc)
    check_index_pages("move_index_keys", pages, index_head_dim, layout)
    n = tgt_loc.shape[0]
    if n and layout == "token_rows" and on_host(pages, tgt_loc, src_loc):
        move_index_items(pages, tgt_loc, src_loc, index_head_dim)
    elif served_by_triton(pages):
        _launch([pages], tgt_loc, src_loc, index_head_dim, layout)
    else:
        loaded = load_index_keys(pages, src_loc, index_head_dim, layout)
        store_index_keys(pages, tgt_loc, *loaded, layout)


def move_index_key_sets(
    layers: Sequence[Tensor],
    tgt_loc: Tensor,
    src_loc: Tensor,
    index_head_dim: int,
    layout: IndexLayout = "token_rows",
) -> None:
    """`move_index_keys` in the pages of each layer, which are as many.

    A Triton kernel does up to 256 pairs in one launch for all layers, more of them in four: keys
    and scales are staged, each in two.

    :raises ValueError: as `move_index_keys`, and for pages of other layers of another size; nothing
        is moved.
    """
    check_pairs(tgt_loc, src_loc)
    _check_alike(layers, index_head_dim, layout)
    if layers and served_by_triton(layers[0]):
        _launch(layers, tgt_loc, src_loc, index_head_dim, layout)
        return
    for pages in layers:
        move_index_keys(pages, tgt_loc, src_loc, index_head_dim, layout)


def _check_alike(layers: Sequence[Tensor], index_head_dim: int, layout: IndexLayout) -> None:
    for pages in layers:
        check_index_pages("move_index_key_sets", pages, index_head_dim, layout)
    if len({pages.shape[1] for pages in layers}) > 1:
        raise ValueError(
            f"move_index_key_sets: pages of {sorted({p.shape[1] for p in layers})} bytes, must be "
            "the same in all layers; nothing was moved"
        )


def _launch(
    layers: Sequence[Tensor],
    tgt_loc: Tensor,
    src_loc: Tensor,
    index_head_dim: int,
    layout: IndexLayout,
) -> None:
    for loc in (tgt_loc, src_loc):
        check_index_loc(min(layers, key=len), loc, index_head_dim)
    from .triton.launch import run
    from .triton.move_index_keys import plan_move_index_keys

    for launch in plan_move_index_keys(layers, tgt_loc, src_loc, index_head_dim, layout):
        run(launch)
