"""Every class gate that is rewritten, once: what it asked of a pool, and what it asks now."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

from kvproto.gates import Gate, Profile
from kvproto.gates.new_imports import module_of
from kvproto.gates.new_tests import new_test

__all__ = ["Question", "questions_of"]


@dataclass(frozen=True, slots=True)
class Question:
    """`exact`: only the very classes would do. `test` is Python on a name `pool`."""

    classes: tuple[str, ...]
    exact: bool
    test: str
    imports: tuple[tuple[str, str], ...]
    """Name -> module."""

    def as_json(self) -> dict[str, object]:
        """For the process that has the pools."""
        return asdict(self)


def questions_of(gates: Iterable[Gate], profile: Profile) -> list[Question]:
    """Without duplicates, sorted."""
    found: set[Question] = set()
    for gate in gates:
        test = new_test(gate.answer, "pool") if gate.classes else None
        if test is not None:
            imports = tuple(sorted((name, module_of(name, profile)) for name in test.names))
            text = test.text(indent="", room=10_000, newline="\n")
            found.add(Question(gate.classes, gate.kind == "type-is", text, imports))
    return sorted(found, key=lambda q: (q.test, q.classes, q.exact))
