"""Buffers between pages that nothing may touch: a write beside one ends the process at once.

The heap would take it silently, and another test would fail for it, or none.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from itertools import count
from typing import Any
from weakref import WeakValueDictionary

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from .factory import Factory
from .lazy_memory import NO_RESERVE, creates_on_cpu, would_create
from .saver import recording

__all__ = ["GuardedMemory"]

_GUARD = 1 << 26
_ALIGNMENT = 64
_UNTOUCHED = 0xA5
_PROT_NONE = 0


class GuardedMemory:
    """Where the CPU tensors that a factory creates lie.

    A buffer ends at a guard, but for the bytes that keep its start aligned; between its start and
    the guard before it there may be most of a page. `damage` looks at these bytes.
    """

    def __init__(self) -> None:
        self._alive: WeakValueDictionary[int, _Buffer] = WeakValueDictionary()
        self._created = count()
        self._found: list[str] = []

    def guarding(self, factory: Factory) -> Factory:
        """The factory, which then creates its tensors here; where allocations are recorded, not.

        Where there is no fork, nothing is guarded either.
        """

        def build(request: Any) -> Any:
            if recording() or not hasattr(os, "fork"):
                return factory(request)
            with _Guarded(self):
                return factory(request)

        return build

    def zeros(self, nbytes: int) -> Tensor:
        """So many zero bytes between guards."""
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE
        buffer = _Buffer(-1, _GUARD + _whole(nbytes, mmap.PAGESIZE) + _GUARD, flags=flags)
        buffer.guard(nbytes, self._found)
        self._alive[next(self._created)] = buffer
        return torch.frombuffer(buffer, dtype=torch.uint8, count=nbytes, offset=buffer.start)

    def damage(self) -> str:
        """Which bytes beside a buffer were overwritten, of the first one; empty where none were.

        The first created, so that the same damage is always told in the same words.
        """
        for buffer in self._alive.values():
            buffer.look()
        return self._found[0] if self._found else ""


class _Buffer(mmap.mmap):
    """The memory of one tensor, looked at when that is gone."""

    start = 0
    _around: tuple[slice, slice] = (slice(0), slice(0))
    _found: list[str]

    def guard(self, nbytes: int, found: list[str]) -> None:
        end = len(self) - _GUARD
        self.start = end - _whole(nbytes, _ALIGNMENT)
        self._around = slice(_GUARD, self.start), slice(self.start + nbytes, end)
        self._found = found
        _forbid(self, 0)
        _forbid(self, end)
        for part in self._around:
            self[part] = bytes([_UNTOUCHED]) * (part.stop - part.start)

    def look(self) -> None:
        for part, side in zip(self._around, ("before", "after"), strict=True):
            touched = sum(byte != _UNTOUCHED for byte in self[part])
            if touched:
                self._found.append(f"{touched} bytes overwritten right {side} a buffer")

    def __del__(self) -> None:
        self.look()


class _Guarded(TorchFunctionMode):
    def __init__(self, memory: GuardedMemory) -> None:
        super().__init__()
        self._memory = memory

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        named = kwargs or {}
        if not creates_on_cpu(func, args, named):
            return func(*args, **named)
        shape = would_create(func, args, named)
        if not shape.nbytes:
            return func(*args, **named)
        return self._memory.zeros(shape.nbytes).view(shape.dtype).view(shape.shape)


def _whole(nbytes: int, unit: int) -> int:
    return -(-nbytes // unit) * unit


def _forbid(memory: mmap.mmap, start: int) -> None:
    """No access to the guard that starts here."""
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory)) + start
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(_GUARD), _PROT_NONE):
        raise OSError(ctypes.get_errno(), "mprotect of a guard failed")
