"""Every class gate that is rewritten, once: what it asked of a pool, and what it asks now."""

from __future__ import annotations

from collections import defaultdict
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

    @property
    def was(self) -> str:
        """What was asked, as Python on a name `pool`."""
        names = ", ".join(self.classes)
        classes = names if len(self.classes) == 1 else f"({names})"
        if self.exact:
            return f"type(pool) {'is' if len(self.classes) == 1 else 'in'} {classes}"
        return f"isinstance(pool, {classes})"

    def as_json(self) -> dict[str, object]:
        """For the process that has the pools."""
        return asdict(self)


def questions_of(gates: Iterable[Gate], profile: Profile) -> dict[Question, list[Gate]]:
    """Without duplicates, sorted, with the gates that ask each."""
    found: dict[Question, list[Gate]] = defaultdict(list)
    for gate in gates:
        test = new_test(gate.answer, "pool") if gate.classes else None
        if test is not None:
            imports = tuple(sorted((name, module_of(name, profile)) for name in test.names))
            text = test.text(indent="", room=10_000, newline="\n")
            found[Question(gate.classes, gate.kind == "type-is", text, imports)].append(gate)
    return dict(sorted(found.items(), key=lambda q: (q[0].test, q[0].classes, q[0].exact)))
