"""Addresses of many buffers as one tensor, for a kernel that works on all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

__all__ = ["pointer_table"]


class _Known(NamedTuple):
    """A table and the memory of its first buffer, as long as which it is kept."""

    table: Tensor
    memory: StorageWeakRef


_tables: dict[tuple[torch.device, tuple[int, ...]], _Known] = {}
"""A table is its key, so that none is ever wrong. It lives as long as the pool: captured graphs
read it whenever they are replayed."""


def pointer_table(buffers: Sequence[Tensor]) -> Tensor:
    """`[buffers]` int64 on their device: where each begins.

    Made when first asked for, by a copy from the host that is waited for: afterwards every stream
    may read it. A captured graph cannot do that: pools ask when they are built (`prepare_moves`).

    :raises RuntimeError: for one that is first asked for while a graph is captured.
    """
    device, addresses = buffers[0].device, tuple(buffer.data_ptr() for buffer in buffers)
    known = _tables.get((device, addresses))
    # An address is given out again; while a weak reference is held, `cdata` is not.
    if known is not None and known.memory.cdata == buffers[0].untyped_storage()._cdata:
        return known.table
    if _is_capturing(device):
        raise RuntimeError(
            f"addresses of {len(buffers)} buffers are not on {device} yet, and a captured graph "
            "cannot wait for their copy: call the operation once before capturing"
        )
    _forget_freed()
    table = torch.tensor(addresses, dtype=torch.int64, device=device)
    memory = StorageWeakRef(buffers[0].untyped_storage())
    _tables[device, addresses] = _Known(table, memory)
    return table


def _forget_freed() -> None:
    """Drop the tables of pools that are gone."""
    for key in [key for key, known in _tables.items() if known.memory.expired()]:
        del _tables[key]


def _is_capturing(device: torch.device) -> bool:
    if device.type != "cuda":
        return False
    with torch.cuda.device(device):
        return torch.cuda.is_current_stream_capturing()
