"""Whether an option's value is one: counts, numbers, flags and words, refused by name."""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

from .plan_error import PlanError

__all__ = ["Float", "check_count", "check_flag", "check_number", "check_word"]

Float = Literal["float32", "bfloat16", "float16"]
"""What a model, or a state, can be computed in."""


def check_count(
    name: str,
    value: object,
    *,
    least: int = 1,
    why: str = "it is a count",
    without: str | None = None,
) -> None:
    """A whole number from `least`; None as well where `without` says what that is; True is none.

    :raises PlanError: for anything else.
    """
    if without is not None and value is None:
        return
    change = f"give {least} or more" if least == 0 else f"give at least {least}"
    change += "" if without is None else f", or {without}"
    if isinstance(value, bool) or not isinstance(value, int):
        raise PlanError(name, value, "it is a whole number", change)
    if value < least:
        raise PlanError(name, value, why, change)


def check_number(name: str, value: object) -> None:
    """A finite number.

    :raises PlanError: for anything else.
    """
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return
    raise PlanError(name, value, "it is a finite number", "give one")


def check_flag(name: str, value: object) -> None:
    """True or False.

    :raises PlanError: for anything else.
    """
    if not isinstance(value, bool):
        raise PlanError(name, value, "it is true or false", "give True or False")


def check_word(name: str, value: object, domain: Any) -> None:
    """One of the values of a `Literal`.

    :raises PlanError: for anything else.
    """
    allowed: tuple[object, ...] = get_args(domain)
    if value not in allowed:
        named = ", ".join(map(repr, allowed))
        raise PlanError(name, value, "it is none of its values", f"give one of {named}")
