"""Debug mode: every call across a protocol boundary is checked, by beartype and by value.

Off, which is the default, nothing is wrapped: a pool's methods are the very functions its class
defines, and beartype is not imported. On, a pool's class is swapped for a generated subclass
whose members check what goes in and what comes out. Values are looked at too (are all locations
in range?), which on a device waits for it: debug mode is for finding a fault, not for speed.
Under torch.compile, in a graph capture and on fake tensors the checks stand aside.
"""

from __future__ import annotations

import os
from typing import TypeVar

from ._violation import CannotValidate, ContractViolation

__all__ = [
    "CannotValidate",
    "ContractViolation",
    "enabled",
    "is_validated",
    "maybe_validate",
    "validate",
]

P = TypeVar("P")

_OFF = ("", "0", "false", "no", "off")
_enabled = os.environ.get("KVPROTO_DEBUG", "").strip().lower() not in _OFF


def enabled() -> bool:
    """Was `KVPROTO_DEBUG` set when kvproto was imported? Empty, 0, false, no and off mean no."""
    return _enabled


def maybe_validate(pool: P, /) -> P:
    """`validate(pool)` when debug mode is on; otherwise the pool, untouched.

    For builders and factories: call it on what is handed out.
    """
    return validate(pool) if _enabled else pool


def validate(pool: P, /) -> P:
    """The same object, each capability it has now checked on every call; needs `kvproto[debug]`.

    Its class becomes a generated subclass of the same name. `isinstance`, `supports`, `explain`,
    repr and pickling answer as before (a copy or an unpickled pool is a plain one again);
    `type(pool) is SomeClass` does not. Methods that were replaced on the class later stay
    checked, those assigned to the instance later are not. Twice is the same as once.

    :raises ContractViolation: when a data member already is not what its protocol says.
    :raises CannotValidate: when checks cannot be installed, or would not refuse a wrong call.
    :raises ImportError: when beartype is not installed.
    """
    from ._swap import swap_in_checks

    swap_in_checks(pool)
    return pool


def is_validated(pool: object, /) -> bool:
    """Do calls of this pool go through the checks?"""
    return "_kvproto_checks" in type(pool).__dict__
