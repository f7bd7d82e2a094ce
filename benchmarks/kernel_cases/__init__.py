"""Every kernel on the shapes of real models: a new kernel adds a module here, and its line below.

Importing it imports Triton.
"""

from __future__ import annotations

from collections.abc import Iterator

from . import (
    alloc_decode,
    alloc_extend,
    alloc_pages_pair,
    convert_pages,
    copy_pages,
    gather_rows,
    gather_tiled_rows,
    index_keys,
    latent_rows,
    locations,
    move_row_sets,
    move_tiled_row_sets,
    slots,
    store_block_scaled_rows,
    store_fp8_row_sets,
    store_row_sets,
    store_sparse_index_rows,
    store_tiled_rows,
)
from .case import Case, Inputs, Place, tensors_of

__all__ = ["Case", "Inputs", "Place", "all_cases", "tensors_of"]

_MODULES = (
    alloc_decode,
    alloc_extend,
    alloc_pages_pair,
    convert_pages,
    copy_pages,
    gather_rows,
    gather_tiled_rows,
    index_keys,
    latent_rows,
    locations,
    move_row_sets,
    move_tiled_row_sets,
    slots,
    store_block_scaled_rows,
    store_fp8_row_sets,
    store_row_sets,
    store_sparse_index_rows,
    store_tiled_rows,
)


def all_cases() -> Iterator[Case]:
    """Each operation on each shape."""
    for module in _MODULES:
        yield from module.cases()
