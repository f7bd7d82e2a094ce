"""Which process a peer is, and whether it is known to have ended: then it writes nothing more."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["has_ended", "this_process"]

_PROC = Path("/proc")


def this_process() -> str:
    """Names this process among all that its machine has run; empty where `/proc` cannot tell."""
    try:
        started, _ = _start_and_state(os.getpid())
        return f"{_machine()} {os.getpid()} {started}"
    except OSError:
        return ""


def has_ended(process: str) -> bool:
    """Whether the process of that name has ended; False where that is not known from here.

    Only processes of this machine, since it was booted and in this name space of processes, are.
    """
    machine, _, rest = process.partition(" ")
    pid, _, started = rest.partition(" ")
    try:
        if machine != _machine() or not pid.isdecimal():
            return False
        os.kill(int(pid), 0)
        now_started, state = _start_and_state(int(pid))
        return now_started != started or (state in "ZX" and _threads(int(pid)) == 1)
    except ProcessLookupError:
        return True
    except OSError:  # it is there, or /proc does not show it
        return False


def _machine() -> str:
    boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}/{(_PROC / 'self/ns/pid').stat().st_ino}"


def _start_and_state(pid: int) -> tuple[str, str]:
    """Ticks from boot to its start, which a later process of the same number has not."""
    fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    return fields[19], fields[0]


def _threads(pid: int) -> int:
    """Those that have not ended, and the first one always."""
    return len(list((_PROC / str(pid) / "task").iterdir()))
