"""Recurrent state of some slots, kept on the host while its request is retracted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from kvproto.kernels import store_rows
from kvproto.kernels.gather_slots import gather_slots

from .host_rows import check_copied

__all__ = ["HostState", "check_state", "copy_state_to_host", "load_state_from_host"]


@dataclass(frozen=True, slots=True)
class HostState:
    """`tensors[i]` is `[layers, n, ...]` on the CPU, of the pool's i-th state tensor."""

    tensors: tuple[Tensor, ...]
    count: int


def copy_state_to_host(tensors: Sequence[Tensor], slots: Tensor) -> HostState:
    """Copy `[n]` slots of every tensor, `[layers, slots, ...]`; waits for the device."""
    copies = tuple(gather_slots(tensor, slots).to("cpu") for tensor in tensors)
    return HostState(copies, slots.shape[0])


def load_state_from_host(tensors: Sequence[Tensor], copy: HostState, slots: Tensor) -> None:
    """Write a copy to as many slots; the reserved slot is left alone.

    :raises ValueError: as `check_state`; nothing is written.
    """
    check_state(tensors, copy, slots)
    for tensor, rows in zip(tensors, copy.tensors, strict=True):
        for layer, saved in zip(tensor, rows.to(tensor.device), strict=True):
            store_rows(layer, slots, saved)


def check_state(tensors: Sequence[Tensor], copy: HostState, slots: Tensor) -> None:
    """Check that a copy fits, before any of it is written.

    :raises ValueError: for another number of slots or tensors, or state of another shape or dtype.
    """
    if copy.count != slots.shape[0] or len(copy.tensors) != len(tensors):
        raise ValueError(
            f"the copy holds {copy.count} slots of {len(copy.tensors)} tensors, asked to load "
            f"{slots.shape[0]} slots into {len(tensors)}"
        )
    for tensor, rows in zip(tensors, copy.tensors, strict=True):
        check_copied(rows, (tensor.shape[0], copy.count, *tensor.shape[2:]), tensor.dtype)
