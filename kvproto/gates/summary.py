"""Counts of a scan: by question, by class, by file, by verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from .answers import words
from .gate import DUCK_KINDS, Gate

__all__ = ["by_answer", "by_class", "by_file", "by_verdict", "class_gates_of", "duck_gates_of"]


def class_gates_of(gates: Iterable[Gate]) -> list[Gate]:
    """Those that name a class."""
    return [gate for gate in gates if gate.kind not in DUCK_KINDS]


def duck_gates_of(gates: Iterable[Gate]) -> list[Gate]:
    """Those that try a member."""
    return [gate for gate in gates if gate.kind in DUCK_KINDS]


def by_verdict(gates: Iterable[Gate]) -> Counter[str]:
    """Verdict -> gates."""
    return Counter(gate.verdict for gate in gates)


def by_answer(gates: Iterable[Gate]) -> Counter[tuple[str, str]]:
    """Question and what answers it -> gates."""
    return Counter((gate.asks, words(gate.answer)) for gate in gates)


def by_class(gates: Iterable[Gate]) -> Counter[str]:
    """Class -> class gates that name it; a gate counts under each of its classes."""
    return Counter(name for gate in gates for name in gate.classes)


def by_file(gates: Iterable[Gate]) -> Counter[str]:
    """File -> gates."""
    return Counter(gate.file for gate in gates)
