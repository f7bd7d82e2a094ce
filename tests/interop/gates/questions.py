"""Every gate that is answered, once: what it asked of a pool, and what the answer asks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from kvproto.gates import Gate, Profile
from kvproto.gates.answers import AllOf, Member, Near
from kvproto.gates.new_imports import module_of
from kvproto.gates.new_tests import new_test

__all__ = ["Question", "members_of", "questions_of"]


@dataclass(frozen=True, slots=True)
class Question:
    """`exact`: only the very classes would do. `test` is Python on a name `pool`.

    `attribute` where a member is tried, and there are no classes.
    """

    classes: tuple[str, ...]
    exact: bool
    test: str
    imports: tuple[tuple[str, str], ...]
    """Name -> module."""
    attribute: str = ""

    @property
    def was(self) -> str:
        """What was asked, as Python on a name `pool`."""
        if self.attribute:
            return f'hasattr(pool, "{self.attribute}")'
        names = ", ".join(self.classes)
        classes = names if len(self.classes) == 1 else f"({names})"
        if self.exact:
            return f"type(pool) {'is' if len(self.classes) == 1 else 'in'} {classes}"
        return f"isinstance(pool, {classes})"

    def as_json(self) -> dict[str, object]:
        """For the process that has the pools."""
        return asdict(self)


def questions_of(gates: Iterable[Gate], profile: Profile) -> dict[Question, list[Gate]]:
    """Those of class gates, which are rewritten, and have a pool to ask; sorted, with the gates.

    A table of classes is asked before there is a pool: `equivalence` asks it about classes.
    """
    return _asked((gate for gate in gates if gate.classes), profile)


def members_of(gates: Iterable[Gate], profile: Profile) -> dict[Question, list[Gate]]:
    """Those of gates on members, whatever these do with a member that is there."""
    return _asked((gate for gate in gates if not gate.classes), profile)


def _asked(gates: Iterable[Gate], profile: Profile) -> dict[Question, list[Gate]]:
    found: dict[Question, list[Gate]] = defaultdict(list)
    for gate in gates:
        answer = gate.answer.meant if isinstance(gate.answer, Near) else gate.answer
        if isinstance(answer, Member):
            answer = AllOf((answer.capability,))
        test = new_test(answer, "pool")
        if test is not None:
            imports = tuple(sorted((name, module_of(name, "", profile)) for name in test.names))
            text = test.text(indent="", room=10_000, newline="\n")
            exact, attribute = gate.kind == "type-is", gate.attribute or ""
            found[Question(gate.classes, exact, text, imports, attribute)].append(gate)
    return dict(sorted(found.items(), key=lambda q: (q[0].test, q[0].was)))
