"""Read index keys and their scales at slots."""

from __future__ import annotations

from torch import Tensor

from .index_page import page_parts

__all__ = ["load_index_keys"]


def load_index_keys(pages: Tensor, loc: Tensor, index_head_dim: int) -> tuple[Tensor, Tensor]:
    """The bytes of `[n]` index slots: keys `[n, index_head_dim]`, scales `[n, 4]`; uint8, fresh.

    A slot of 0 or below reads slot 0, which is zero. `loc` is int32 or int64, in range.
    """
    slots = loc.clamp(min=0)
    keys, scales = (
        part.units.index_select(0, part.rows(slots)).view(loc.shape[0], part.width)
        for part in page_parts(pages, index_head_dim)
    )
    return keys, scales
