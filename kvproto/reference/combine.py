"""A class for each combination of what leaves allow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from .composite_pool import CompositePool, P
from .sides import Side, owning

__all__ = ["combination", "what_fits"]

_made: dict[tuple[type, ...], type] = {}


def what_fits(
    base: type[P], parts: Sequence[type[CompositePool]], sides: Sequence[Side]
) -> type[P]:
    """The class of `base` with each part that the leaves owning a layer allow."""
    owners = owning(sides)
    return combination(base, tuple(part for part in parts if part.fits(owners)))


def combination(base: type[P], parts: tuple[type[CompositePool], ...]) -> type[P]:
    """`base` with these parts: the same class for the same parts, named after them."""
    if not parts:
        return base
    key = (base, *parts)
    if key not in _made:
        name = f"{base.__name__}[{', '.join(part.label for part in parts)}]"
        members = {"__doc__": base.__doc__, "__module__": base.__module__}
        # setdefault: of two threads that make the same class at once, both get the first.
        _made.setdefault(key, type(name, (*parts, base), members))
    return cast("type[P]", _made[key])
