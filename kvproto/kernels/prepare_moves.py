"""Put the addresses of a pool's buffers on its device, before a graph that moves rows is captured.

Kernels that move rows of many buffers read where each begins from a table. A table is made by the
first move otherwise, which a captured graph cannot do. Its memory is not a memory saver's: make it
outside of the saver's region. A saver that maps other memory leaves addresses, and tables, as they
are; buffers at other addresses have another table.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .index_page import SCALE_BYTES
from .row_tiles import RowTiles
from .triton_devices import served_by_triton

__all__ = ["prepare_index_moves", "prepare_moves", "prepare_slot_copies"]


def prepare_moves(buffers: Sequence[Tensor], tiles: RowTiles | None = None) -> None:
    """For `move_row_sets` of these buffers, or `move_tiled_row_sets`; nothing without kernels."""
    if not buffers or not served_by_triton(buffers[0]):
        return
    from .triton.move_row_sets import plan_move_row_sets, plan_move_tiled_row_sets

    none = _no_locations(buffers[0])
    plan = (
        plan_move_row_sets(buffers, none, none)
        if tiles is None
        else plan_move_tiled_row_sets(buffers, none, none, tiles)
    )
    for _ in plan:  # what is planned reads tables, which are there from then on
        pass


def prepare_index_moves(layers: Sequence[Tensor], index_head_dim: int) -> None:
    """For `move_index_key_sets` of these layers; nothing without kernels."""
    if not layers or not served_by_triton(layers[0]):
        return
    from .triton.pointer_table import pointer_table

    pointer_table(layers)
    keys_end = layers[0].shape[1] // (index_head_dim + SCALE_BYTES) * index_head_dim
    pointer_table([pages[:, keys_end:] for pages in layers])


def prepare_slot_copies(state: Tensor) -> None:
    """For `copy_slots` of this state; nothing without kernels."""
    prepare_moves(state.unbind(0) if state.numel() else ())


def _no_locations(buffer: Tensor) -> Tensor:
    return torch.empty(0, dtype=torch.int64, device=buffer.device)
