"""Bytes as tensors: those of the tier, and those at an address of a device pool."""

from __future__ import annotations

import ctypes
from typing import Any, Protocol

import torch
from torch import Tensor

__all__ = ["OpenBytes", "host_memory", "open_bytes"]


class OpenBytes(Protocol):
    """What shows the bytes of a device pool."""

    def __call__(self, address: int, nbytes: int, device: torch.device, /) -> Tensor:
        """uint8 `[nbytes]`, an alias of what is at the address; it keeps nothing alive."""
        ...


def host_memory(nbytes: int, device: torch.device) -> Tensor:
    """uint8 `[nbytes]` of zeros in host memory, pinned where torch pins for that kind of device.

    Torch pins for the accelerator of the process alone, and not every accelerator can. Every byte
    is written once, so that no copy is the first to touch a page of the system's.

    :raises RuntimeError: from torch, where so much cannot be pinned.
    """
    accelerator = torch.accelerator.current_accelerator()
    pinned = accelerator is not None and accelerator.type == device.type and _can_pin()
    return torch.empty(nbytes, dtype=torch.uint8, device="cpu", pin_memory=pinned).fill_(0)


def _can_pin() -> bool:
    """Whether the backend has pinned memory, by a byte of it: no more than that can be too much."""
    try:
        torch.empty(1, dtype=torch.uint8, device="cpu", pin_memory=True)
    except RuntimeError:  # NotImplementedError is one
        return False
    return True


def open_bytes(address: int, nbytes: int, device: torch.device, /) -> Tensor:
    """uint8 `[nbytes]` at an address of host memory or of a CUDA device; an alias.

    :raises ValueError: for other devices, whose addresses torch has no door for.
    """
    match device.type:
        case "cpu":
            held = (ctypes.c_uint8 * nbytes).from_address(address)
            return torch.frombuffer(held, dtype=torch.uint8)
        case "cuda":
            # torch.as_tensor takes the array interface as it is, without a copy.
            given: Any = _OnDevice(address, nbytes)
            return torch.as_tensor(given, device=device)
        case other:
            raise ValueError(
                f"memory on {other}: torch opens addresses on cpu and cuda only; "
                "give open_bytes, a function that shows the bytes at an address"
            )


class _OnDevice:
    def __init__(self, address: int, nbytes: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
            "strides": None,
        }
