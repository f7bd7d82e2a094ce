"""Who raised an exception that nothing allows: the pool's member that was called."""

from __future__ import annotations

import os
import traceback
from dataclasses import dataclass

__all__ = ["Blamed", "blamed"]

_KIT = os.path.dirname(__file__)


@dataclass(frozen=True, slots=True)
class Blamed:
    """`call` is the first member outside the kit, empty where the kit itself raised."""

    call: str
    told: str


def blamed(error: BaseException) -> Blamed:
    """The member, and the exception in one line, with the place in the pool's own code."""
    call = where = ""
    for frame in traceback.extract_tb(error.__traceback__):
        if _KIT in frame.filename:
            call = where = ""
        else:
            call = call or f"{frame.name}(...)"
            where = f" ({os.path.basename(frame.filename)}:{frame.lineno} in {frame.name})"
    text = str(error).strip().split("\n", 1)[0]
    return Blamed(call, f"{type(error).__name__}: {text}{where}")
