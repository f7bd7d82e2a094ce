"""Where the window of a request keeps a position."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["ring_slots"]


def ring_slots(req_pool_indices: Tensor, positions: Tensor, ring_size: int) -> Tensor:
    """`row * ring_size + position % ring_size`, int64, of rows and positions of the same shape.

    Fixed-shape. Positions below 0 are padding: they give -1, which writers drop.
    """
    places = req_pool_indices.to(torch.int64) * ring_size + positions.to(torch.int64) % ring_size
    return places.masked_fill_(positions < 0, -1)
