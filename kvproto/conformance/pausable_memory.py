"""A stand-in for the package `torch_memory_saver` that takes CPU memory away for real.

A paused buffer is pages that may not be touched: whoever does ends the process. A resumed one is at
its old address, and holds 0xff in every byte, which is NaN in every float dtype.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

__all__ = ["PausableMemory", "pausable_memory"]

_PACKAGE = "torch_memory_saver"
_NO_ACCESS, _ACCESS = 0, 3  # PROT_NONE, PROT_READ | PROT_WRITE


class PausableMemory:
    """Where tensors lie that are created inside a region, by the region's tag."""

    def __init__(self) -> None:
        self._held: list[tuple[str, mmap.mmap]] = []

    @contextmanager
    def region(self, tag: str = "default", *_: object, **__: object) -> Generator[None]:
        """The saver's own method: what is created inside can be paused under the tag."""
        with _Relocated(self, tag):
            yield

    def pause(self, tag: str) -> None:
        """Take the memory away."""
        for memory in self._of(tag):
            _protect(memory, _NO_ACCESS)

    def resume(self, tag: str) -> None:
        """Give memory back, with other contents."""
        for memory in self._of(tag):
            _protect(memory, _ACCESS)
            memory[:] = b"\xff" * len(memory)

    def relocated(self, tensor: Tensor, tag: str) -> Tensor:
        """The same tensor in memory that can be paused."""
        memory = mmap.mmap(-1, max(tensor.nbytes, 1))
        self._held.append((tag, memory))
        moved = torch.frombuffer(memory, dtype=torch.uint8, count=tensor.nbytes)
        return moved.view(tensor.dtype).view(tensor.shape).copy_(tensor)

    def _of(self, tag: str) -> Iterator[mmap.mmap]:
        return (memory for held, memory in self._held if held == tag)


@contextmanager
def pausable_memory() -> Generator[PausableMemory]:
    """Put the stand-in where pools import the saver from, until the end."""
    package = ModuleType(_PACKAGE)
    package.__dict__["torch_memory_saver"] = memory = PausableMemory()
    with patch.dict(sys.modules, {_PACKAGE: package}):
        yield memory


class _Relocated(TorchFunctionMode):
    """Moves every CPU tensor with bytes of its own that a torch function returns."""

    def __init__(self, memory: PausableMemory, tag: str) -> None:
        super().__init__()
        self._memory, self._tag = memory, tag

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        given = {each.untyped_storage().data_ptr() for each in args if isinstance(each, Tensor)}
        fresh = (
            isinstance(made, Tensor)
            and made.device.type == "cpu"
            and made.numel()
            and made.is_contiguous()
            and made.untyped_storage().data_ptr() not in given
        )
        return self._memory.relocated(made, self._tag) if fresh else made


def _protect(memory: mmap.mmap, access: int) -> None:
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    length = -(-len(memory) // mmap.PAGESIZE) * mmap.PAGESIZE
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(length), access):
        raise OSError(ctypes.get_errno(), "mprotect of a buffer failed")
