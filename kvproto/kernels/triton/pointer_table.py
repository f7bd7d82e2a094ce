"""Addresses of many buffers as one tensor, for a kernel that works on all of them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["pointer_table"]

_tables: dict[tuple[torch.device, tuple[int, ...]], Tensor] = {}
"""Kept for good: a captured graph reads its table whenever it is replayed. A table is its key, so
that none is ever wrong; a pool has one, of 8 bytes a buffer."""


def pointer_table(buffers: Sequence[Tensor]) -> Tensor:
    """`[buffers]` int64 on their device: where each begins.

    Nothing is copied from the host, so that it can be made while a graph is captured; such a one
    is filled by every replay, and not kept.
    """
    device, addresses = buffers[0].device, tuple(buffer.data_ptr() for buffer in buffers)
    known = _tables.get((device, addresses))
    if known is not None:
        return known
    table = torch.empty(len(addresses), dtype=torch.int64, device=device)
    for place, pointer in zip(table, addresses, strict=True):
        place.fill_(pointer)
    if not _is_capturing(device):
        _tables[device, addresses] = table
    return table


def _is_capturing(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()
