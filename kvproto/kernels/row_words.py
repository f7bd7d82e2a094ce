"""See rows as machine words: copies move bytes, and wider elements move them faster."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["row_words"]

_WORD = torch.int64


def row_words(target: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Both as int64 `[n, words]` if their rows are whole words, aligned; else as they are.

    They have the same trailing shape and dtype. The first result is always a view of `target`;
    strided `rows` are made dense. Traced, nothing is changed.
    """
    if torch.compiler.is_compiling():  # an offset cannot be traced, and a compiler widens itself
        return target, rows
    row_bytes = target[:1].nbytes if target.shape[0] else 0
    if row_bytes % _WORD.itemsize or not row_bytes or not target.is_contiguous():
        return target, rows
    dense = rows.contiguous()
    if any(t.storage_offset() * t.itemsize % _WORD.itemsize for t in (target, dense)):
        return target, rows
    width = row_bytes // target.itemsize
    return target.view(-1, width).view(_WORD), dense.view(-1, width).view(_WORD)
