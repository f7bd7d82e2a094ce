"""Copy index keys between slots of the same pages."""

from __future__ import annotations

from torch import Tensor

from .index_items import move_index_items
from .load_index_keys import load_index_keys
from .locations import check_pairs
from .on_host import on_host
from .store_index_keys import store_index_keys

__all__ = ["move_index_keys"]


def move_index_keys(pages: Tensor, tgt_loc: Tensor, src_loc: Tensor, index_head_dim: int) -> None:
    """Key and scale of slot `src_loc[i]` to slot `tgt_loc[i]`, token by token across pages.

    All sources are read before any target is written. As `move_rows` otherwise.
    """
    check_pairs(tgt_loc, src_loc)
    if tgt_loc.shape[0] and on_host(pages, tgt_loc, src_loc):
        move_index_items(pages, tgt_loc, src_loc, index_head_dim)
    else:
        store_index_keys(pages, tgt_loc, *load_index_keys(pages, src_loc, index_head_dim))
