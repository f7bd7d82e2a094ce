"""The order of laws: each after those it needs, and blocked where one of them is down."""

from __future__ import annotations

from collections.abc import Iterable

from .law import Law

__all__ = ["in_order_of_needs"]


def in_order_of_needs(laws: Iterable[Law]) -> list[Law]:
    """These laws in their order, but each after the laws among them that it needs.

    :raises ValueError: where laws need one another in a circle, naming them.
    """
    given = {law.id: law for law in laws}
    ordered: dict[str, Law] = {}
    for law in given.values():
        _place(law, given, ordered, ())
    return list(ordered.values())


def _place(
    law: Law, given: dict[str, Law], ordered: dict[str, Law], waiting: tuple[str, ...]
) -> None:
    if law.id in waiting:
        circle = " -> ".join((*waiting[waiting.index(law.id) :], law.id))
        raise ValueError(f"laws need one another: {circle}")
    if law.id in ordered:
        return
    for need in law.needs:
        if need in given:
            _place(given[need], given, ordered, (*waiting, law.id))
    ordered[law.id] = law
