"""Write several kinds of row to the same locations at once."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .row_words import row_words

__all__ = ["store_row_sets"]


def store_row_sets(loc: Tensor, sets: Sequence[tuple[Tensor, Tensor]]) -> None:
    """`target[loc[i]] = rows[i]` for every `(target, rows)` and every `loc[i]` of at least 1.

    The same as `store_rows` for each, with what follows from the locations worked out once.
    Targets may differ in width and dtype; of duplicate locations a row may win in one target
    that loses in another.
    """
    kept, index = loc > 0, loc.clamp(min=0).to(torch.int64)
    for target, rows in sets:
        into, given = row_words(target, rows)
        mask = kept.view(-1, *(1,) * (given.dim() - 1))
        into.index_copy_(0, index, torch.where(mask, given, torch.zeros_like(given[:1])))
