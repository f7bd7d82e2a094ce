"""Amounts of memory, as people write and read them."""

from __future__ import annotations

import re

from .plan_error import PlanError

__all__ = ["read_bytes", "shown_bytes"]

_UNITS = {"B": 0, "KIB": 10, "MIB": 20, "GIB": 30, "TIB": 40}
_DIGITS = 20
"""Of a number that is an amount of memory."""
_DECIMAL = {"KB": 1000, "MB": 1000**2, "GB": 1000**3, "TB": 1000**4}


def read_bytes(text: str, option: str) -> int:
    """`80GiB`, `512 MiB`, `1.5GB`, or plain bytes.

    :raises PlanError: for anything else.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", text)
    unit = match[2].upper() or "B" if match else ""
    if match is None or len(match[1]) > _DIGITS or unit not in {*_UNITS, *_DECIMAL}:
        raise PlanError(option, text, "is no amount of memory", "write for example 80GiB")
    factor = _DECIMAL.get(unit) or 1 << _UNITS[unit]
    return int(float(match[1]) * factor)


def shown_bytes(amount: float) -> str:
    """In the unit that leaves at least one digit before the point: `39.99 GiB`, `576 B`."""
    for unit, shift in (("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if amount >= 1 << shift:
            return f"{amount / (1 << shift):.2f} {unit}"
    return f"{int(amount)} B"
