"""Index keys and scales in host memory as numpy items, by page and place on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from .extremes import least
from .index_page import SCALE_BYTES
from .on_host import np
from .row_items import Memory, item

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["move_index_items"]


def move_index_items(pages: Tensor, tgt_loc: Tensor, src_loc: Tensor, index_head_dim: int) -> None:
    """`move_index_keys` of dense tensors."""
    targets, sources = tgt_loc.numpy(), np.maximum(src_loc.numpy(), 0)
    dropped = least(targets) < 1
    if dropped:
        kept = targets > 0
        targets, sources = targets[kept], sources[kept]
    parts = _parts(pages, index_head_dim)
    into, out_of = (np.divmod(slots, parts[0].shape[1]) for slots in (targets, sources))
    for part in parts:
        part[into] = part[out_of]
        if dropped:
            part[0, 0] = b""  # padded with zeros


def _parts(pages: Tensor, index_head_dim: int) -> tuple[NDArray[np.void], NDArray[np.void]]:
    """`[pages, keys of a page]` items of keys, and as many of scales; aliases."""
    count, page_bytes = pages.shape
    page_size = page_bytes // (index_head_dim + SCALE_BYTES)
    shape, memory = (count, page_size), Memory.from_address(pages.data_ptr())
    of_keys: Any = (memory, 0, (page_bytes, index_head_dim))
    of_scales: Any = (memory, page_size * index_head_dim, (page_bytes, SCALE_BYTES))
    keys: NDArray[np.void] = np.ndarray(shape, item(index_head_dim), *of_keys)
    scales: NDArray[np.void] = np.ndarray(shape, item(SCALE_BYTES), *of_scales)
    return keys, scales
