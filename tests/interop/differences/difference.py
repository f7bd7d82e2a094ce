"""One call on which a real pool of sglang's breaks a clause that ours keeps."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Difference", "Shown"]


@dataclass(frozen=True, slots=True)
class Shown:
    """The exact values that the probe reports after the same calls on both."""

    sglang: object
    kvproto: object


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A family's operation, what each side does in words, and the clause that decides.

    `operation` is the name of the script in the probe's section. `clause` is the id of a law, or
    a member of a protocol (`Movable.move_kv_cache`; `SlotAllocator` for what its docstring says
    of all members). Where `shown` is None sglang's pool alone was run, and `test_faults.py` holds
    what it does: the clause is then a law, which the kit asks of ours.
    """

    family: str
    operation: str
    clause: str
    sglang: str
    kvproto: str
    shown: Shown | None = None
