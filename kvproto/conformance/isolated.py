"""Run a law in a child process, so that a kernel that writes out of bounds breaks only that."""

from __future__ import annotations

import faulthandler
import gc
import os
import pickle
import select
import signal
import time
import warnings
from collections.abc import Callable
from typing import Literal, NoReturn, TypeVar

import torch

from .blame import Blamed, blamed
from .broken import LawBroken

__all__ = ["Isolation", "run_in_child"]

T = TypeVar("T")

Isolation = Literal["hazardous", "every"]
"""Which laws run in a child: those that provoke wrong kernels, or all, so that this process runs
none and no law meets the memory that another one left behind."""

_CALLS = "the calls of this law, in a process of their own"


def run_in_child(action: Callable[[], T], seconds: float = 600.0, cpu_seconds: int = 120) -> T:
    """The action's result, computed in a fork of this process; it must be picklable.

    Where there is no fork it runs here. What it takes is counted in processor time too, so that
    the answer is the same on a busy machine.

    :raises LawBroken: when the action raises, whatever that is, when the child ends without an
        answer, or has not finished in time.
    """
    if not hasattr(os, "fork"):
        return action()
    reader, writer = os.pipe()
    child = _fork()
    if child == 0:
        try:
            _limit(cpu_seconds)
            _answer(action, writer)
        finally:
            os._exit(1)  # whatever happens, the child never goes on with the caller's program
    os.close(writer)
    data = _read(reader, time.monotonic() + seconds)
    os.close(reader)
    if data is None:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if data is None:
        raise LawBroken(_CALLS, expected=f"an end within {seconds:g} s", got="none")
    if status != 0 or not data:
        raise _death(os.waitstatus_to_exitcode(status), cpu_seconds)
    result: T | Blamed = pickle.loads(data)
    if isinstance(result, Blamed):
        raise LawBroken(result.call or _CALLS, expected="no exception", got=result.told)
    return result


def _death(code: int, cpu_seconds: int) -> LawBroken:
    if code == -signal.SIGXCPU:
        limit = f"an end within {cpu_seconds} s of processor time"
        return LawBroken(_CALLS, expected=limit, got="none")
    got = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
    return LawBroken(_CALLS, expected="the process alive", got=got)


def _limit(cpu_seconds: int) -> None:
    import resource  # there is none where there is no fork

    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 5))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _fork() -> int:
    with warnings.catch_warnings():
        # Python warns of a fork beside threads; the child starts none and uses no lock of theirs.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _answer(action: Callable[[], object], writer: int) -> NoReturn:
    faulthandler.disable()  # the parent tells of a crash, in one line
    for fatal in (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT):
        signal.signal(fatal, signal.SIG_DFL)  # libraries install handlers that print for seconds
    gc.freeze()  # a collection would touch, and so copy, all that the parent has
    torch.set_num_threads(1)  # OpenMP's threads do not survive a fork, waiting for them hangs
    try:
        told = pickle.dumps(action())
    except BaseException as error:  # an exit too: only this process may say how it ends
        told = pickle.dumps(blamed(error))
    with open(writer, "wb") as pipe:
        pipe.write(told)
    os._exit(0)


def _read(reader: int, deadline: float) -> bytes | None:
    """Everything up to the end of the pipe, or None when that does not come in time."""
    parts: list[bytes] = []
    while True:
        ready, _, _ = select.select([reader], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return None
        part = os.read(reader, 1 << 16)
        if not part:
            return b"".join(parts)
        parts.append(part)
