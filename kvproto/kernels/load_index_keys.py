"""Read index keys and their scales at slots."""

from __future__ import annotations

from torch import Tensor

from .index_arguments import check_index_loc, check_index_pages
from .index_page import SCALE_BYTES, IndexLayout, page_parts
from .triton_devices import served_by_triton

__all__ = ["load_index_keys"]


def load_index_keys(
    pages: Tensor, loc: Tensor, index_head_dim: int, layout: IndexLayout = "token_rows"
) -> tuple[Tensor, Tensor]:
    """The bytes of `[n]` index slots: keys `[n, index_head_dim]`, scales `[n, 4]`; uint8, fresh.

    A slot of 0 or below reads slot 0, which is zero. `loc` is int32 or int64, in range; a kernel
    reads zeros past the last slot. `pages` and `layout` as in `store_index_keys`.

    :raises ValueError: for pages as in `store_index_keys`.
    :raises IndexError: on the CPU, for a slot past the last.
    """
    check_index_pages("load_index_keys", pages, index_head_dim, layout)
    check_index_loc(pages, loc, index_head_dim)
    if served_by_triton(pages):
        return _launched(pages, loc, index_head_dim, layout)
    parts = page_parts(pages, index_head_dim, layout)
    slots = loc.clamp(min=0)
    keys, scales = (
        part.units.index_select(0, part.rows(slots)).view(loc.shape[0], part.width)
        for part in parts
    )
    return keys, scales


def _launched(
    pages: Tensor, loc: Tensor, index_head_dim: int, layout: IndexLayout
) -> tuple[Tensor, Tensor]:
    from .triton.launch import run
    from .triton.load_index_keys import plan_load_index_keys

    keys, scales = (pages.new_empty(loc.shape[0], width) for width in (index_head_dim, SCALE_BYTES))
    run(plan_load_index_keys(pages, loc, keys, scales, layout))
    return keys, scales
