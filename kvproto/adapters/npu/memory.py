"""Memory of planes, so that a transfer engine may register it."""

from __future__ import annotations

from math import prod

import torch
from torch import Tensor

from .facts import DEVICE_TYPE, NPU

__all__ = ["aligned_zeros", "registered_by", "zeros"]


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


def registered_by(device: torch.device) -> int:
    """What start and length of a registered span are multiples of, for planes there, in bytes."""
    return NPU.registration_alignment if device.type == DEVICE_TYPE else 1


def _whole(nbytes: int, unit: int) -> int:
    return -(-nbytes // unit) * unit
