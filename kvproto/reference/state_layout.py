"""How state is told to a transfer: an entry per tensor and layer, a region per tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from kvproto.protocols import BufferRegion, Field, row_major

from .elements import ELEMENT_OF
from .state_tensors import RecurrentState

__all__ = [
    "StateEntry",
    "check_slice_axis",
    "check_state_dtypes",
    "state_entries",
    "state_region",
]


@dataclass(frozen=True, slots=True)
class StateEntry:
    """One tensor of one layer: the shape of its slot, and the axis that ranks split."""

    layer_id: int
    slot_shape: tuple[int, ...]
    split_axis: int | None
    groups: tuple[int, ...] | None

    @property
    def split_length(self) -> int:
        """Length of the split axis on this rank; 0 where every rank has the item whole."""
        return 0 if self.split_axis is None else self.slot_shape[self.split_axis]

    @property
    def outer_count(self) -> int:
        """Rows of an item before the split axis."""
        return 1 if self.split_axis is None else prod(self.slot_shape[: self.split_axis])

    @property
    def shard_groups(self) -> list[int] | None:
        """Unsplit lengths of the blocks that are split one by one."""
        return None if self.groups is None else list(self.groups)


def state_entries(
    state: RecurrentState,
    layer_ids: Sequence[int],
    conv_slice_axis: int | None,
    conv_shard_groups: Sequence[int] | None,
) -> list[StateEntry]:
    """An entry per tensor and layer, in the order of the descriptors; empty tensors have none."""
    groups = None if conv_shard_groups is None else tuple(conv_shard_groups)
    told = [(tensor, conv_slice_axis, groups) for tensor in state.conv]
    told.append((state.temporal, 0, None))
    return [
        StateEntry(layer_id, tuple(tensor.shape[2:]), axis, blocks)
        for tensor, axis, blocks in told
        if tensor.numel()
        for layer_id in layer_ids
    ]


def state_region(tensor: Tensor, layer_ids: tuple[int, ...]) -> BufferRegion:
    """The region of `[layers, slots, ...]`: a page holds one slot, its axes in one row."""
    slot = prod(tensor.shape[2:])
    element = ELEMENT_OF[tensor.dtype]
    axes = row_major(element, ("token", 1), ("dim", slot))
    return BufferRegion(
        layer_ids=layer_ids,
        bases=tuple(tensor[index].data_ptr() for index in range(len(layer_ids))),
        page_count=tensor.shape[1],
        page_size=1,
        bytes_per_page=slot * tensor.dtype.itemsize,
        fields=(Field("state", element, axes),),
    )


def check_state_dtypes(*dtypes: torch.dtype) -> None:
    """:raises ValueError: for an element type that state cannot be stored in."""
    legal = [dtype for dtype in ELEMENT_OF if dtype.itemsize > 1]
    for dtype in dtypes:
        if dtype not in legal:
            raise ValueError(f"state of {dtype}: must be one of {', '.join(map(str, legal))}")


def check_slice_axis(axis: int | None, shapes: Sequence[tuple[int, ...]]) -> None:
    """:raises ValueError: for an axis that a convolution's shape does not have."""
    for shape in shapes:
        if axis is not None and not 0 <= axis < len(shape):
            raise ValueError(f"conv_slice_axis={axis}: no axis of conv shape {shape}")
