"""Bytes at an address: of this process, or of a device by way of the tensors that own them."""

from __future__ import annotations

import ctypes
from bisect import bisect_right
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from kvproto.transfer.host.memory import open_bytes

from .factory import Factory

__all__ = ["DeviceMemory", "addressed", "alias_of", "bytes_at", "peek", "poke"]


class DeviceMemory:
    """What subjects of a factory own on a device: storages, by address.

    Bytes are copied between them and the host as a tensor's are, so this serves any device that
    torch knows.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._starts: list[int] = []
        self._owners: dict[int, Tensor] = {}

    def recording(self, factory: Factory) -> Factory:
        """The factory, whose tensors on the device are then found by their addresses."""

        def build(request: Any) -> Any:
            with _Recorded(self):
                return factory(request)

        return build

    def own(self, tensor: Tensor) -> None:
        """Keep the storage of a tensor that is on the device."""
        if tensor.device != self._device:
            return
        storage = tensor.untyped_storage()
        if storage.nbytes() and storage.data_ptr() not in self._owners:
            whole = torch.empty(0, dtype=torch.uint8, device=self._device).set_(storage)
            self._owners[storage.data_ptr()] = whole
            self._starts = sorted(self._owners)

    def find(self, address: int, nbytes: int) -> Tensor | None:
        """The bytes there, as a tensor of the device; None where no tensor owns them all."""
        place = bisect_right(self._starts, address) - 1
        if place < 0:
            return None
        start = self._starts[place]
        whole = self._owners[start]
        inside = address + nbytes <= start + whole.nbytes
        return whole[address - start : address - start + nbytes] if inside else None


_CURRENT: ContextVar[DeviceMemory | None] = ContextVar("_CURRENT", default=None)


@contextmanager
def addressed(memory: DeviceMemory | None) -> Generator[None]:
    """Addresses of these storages mean the device's bytes, until the end."""
    token = _CURRENT.set(memory)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def peek(address: int, nbytes: int) -> bytes:
    """The bytes at an address."""
    found = _on_device(address, nbytes)
    if found is None:
        return ctypes.string_at(address, nbytes)
    return bytes(found.cpu().numpy())


def bytes_at(address: int, nbytes: int) -> Tensor:
    """A copy of the bytes at an address, uint8, where the kit's tensors are."""
    found = _on_device(address, nbytes)
    if found is None:
        return torch.frombuffer(bytearray(peek(address, nbytes)), dtype=torch.uint8)
    return found.clone()


def alias_of(address: int, nbytes: int, device: torch.device, /) -> Tensor:
    """The bytes at an address themselves, uint8, as a host tier is shown them."""
    found = _on_device(address, nbytes)
    return open_bytes(address, nbytes, device) if found is None else found


def poke(address: int, data: bytes) -> None:
    """Overwrite the bytes at an address."""
    found = _on_device(address, len(data))
    if found is None:
        ctypes.memmove(address, data, len(data))
    else:
        found.copy_(torch.frombuffer(bytearray(data), dtype=torch.uint8))


def _on_device(address: int, nbytes: int) -> Tensor | None:
    memory = _CURRENT.get()
    return None if memory is None or not nbytes else memory.find(address, nbytes)


class _Recorded(TorchFunctionMode):
    def __init__(self, memory: DeviceMemory) -> None:
        super().__init__()
        self._memory = memory

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        if isinstance(made, Tensor):
            self._memory.own(made)
        return made
