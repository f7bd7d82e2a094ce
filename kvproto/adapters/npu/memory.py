"""Memory of planes, so that a transfer engine may register it."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

import torch
from torch import Tensor

from .facts import DEVICE_TYPE, NPU

__all__ = ["aligned_zeros", "registered_spans", "zeros"]


def zeros(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Zeros, dense. On an Ascend device they can be registered, see `aligned_zeros`.

    Host memory is no transfer engine's of this adapter, and is allocated as it is asked for; a
    plane without bytes has none to register.
    """
    if device.type != DEVICE_TYPE or not prod(shape):
        return torch.zeros(shape, dtype=dtype, device=device)
    return aligned_zeros(shape, dtype, device, NPU.registration_alignment)


def aligned_zeros(
    shape: tuple[int, ...], dtype: torch.dtype, device: torch.device, alignment: int
) -> Tensor:
    """Zeros, dense, whose first byte is at a multiple of `alignment` bytes.

    The bytes from there to the next multiple of it after the last are the tensor's own storage
    too: less than twice `alignment` bytes more than were asked for are held.
    """
    nbytes = prod(shape) * dtype.itemsize
    held = torch.zeros(_whole(nbytes, alignment) + alignment, dtype=torch.uint8, device=device)
    # A fake tensor, which describes memory without having any, is nowhere.
    first = -held.data_ptr() % alignment if type(held) is Tensor else 0
    return held[first : first + nbytes].view(dtype).view(shape)


def registered_spans(planes: Iterable[Tensor], alignment: int) -> list[tuple[int, int]]:
    """`(start, length)` to register for each plane that has bytes, multiples of `alignment`.

    They cover the plane, and no byte of another allocation where it is one of `aligned_zeros`.
    """
    return [(plane.data_ptr(), _whole(plane.nbytes, alignment)) for plane in planes if plane.nbytes]


def _whole(nbytes: int, unit: int) -> int:
    return -(-nbytes // unit) * unit
