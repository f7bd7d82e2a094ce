"""Bytes of this process into another one's memory, by Linux's `process_vm_writev`."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from .engine import Blocks, EngineError

__all__ = ["started", "write_across"]

_MOST_VECTORS = 1024
_REFUSED = "; see /proc/sys/kernel/yama/ptrace_scope, or use another engine"
_HINTS = {errno.EPERM: _REFUSED, errno.ENOSYS: _REFUSED}
_MOST_BYTES = 1 << 30
"""A call moves less than 2 GiB, and stops between vectors only."""


def write_across(pid: int, local: Blocks, remote: Blocks) -> bool:
    """Copy block `i` to block `i` of the process; False where it is gone, or its memory is.

    :raises EngineError: where the kernel does not do it, or is not Linux.
    """
    return all(_call(pid, *batch) for batch in _batches(local, remote))


def started(pid: int) -> str:
    """When the process began, which a later one of that number did not; empty where it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def _batches(local: Blocks, remote: Blocks) -> Iterator[tuple[Blocks, Blocks]]:
    local, remote = _cut(local), _cut(remote)
    begin = 0
    while begin < len(local):
        sums = np.cumsum(local[begin : begin + _MOST_VECTORS, 1])
        end = begin + max(1, int(np.searchsorted(sums, _MOST_BYTES, side="right")))
        yield local[begin:end], remote[begin:end]
        begin = end


def _cut(blocks: Blocks) -> Blocks:
    """Blocks of at most `_MOST_BYTES`."""
    if not len(blocks) or int(blocks[:, 1].max()) <= _MOST_BYTES:
        return blocks
    pieces = [
        (address + offset, min(_MOST_BYTES, nbytes - offset))
        for address, nbytes in blocks.tolist()
        for offset in range(0, nbytes, _MOST_BYTES)
    ]
    return np.array(pieces, np.int64)


def _call(pid: int, local: Blocks, remote: Blocks) -> bool:
    ends = [np.ascontiguousarray(each) for each in (local, remote)]  # an iovec is two words
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "process_vm_writev"):
        raise EngineError("local engine: no process_vm_writev here, which other processes need")
    libc.process_vm_writev.restype = ctypes.c_ssize_t
    size = ctypes.c_ulong
    vectors = [
        argument
        for each in ends
        for argument in (ctypes.c_void_p(each.ctypes.data), size(len(each)))
    ]
    moved = libc.process_vm_writev(ctypes.c_int(pid), *vectors, size(0))
    if moved == int(local[:, 1].sum()):
        return True
    number = ctypes.get_errno()
    if moved >= 0 or number in (errno.ESRCH, errno.EFAULT):  # it ended, or its memory did midway
        return False
    raise EngineError(
        f"local engine: process {os.getpid()} can write nothing to process {pid}: "
        f"{os.strerror(number)}{_HINTS.get(number, '')}"
    )
