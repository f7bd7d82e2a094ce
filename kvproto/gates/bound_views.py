"""Capabilities that a class asks for once: its methods test an attribute instead."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from .answers import AllOf
from .files import file_is
from .found import Found, Place
from .gate import Gate
from .profile import Bind, Profile
from .scopes import Assigned
from .source_text import Edit, SourceText

__all__ = ["Views", "views_of"]


@dataclass(frozen=True, slots=True)
class Views:
    """The binds of a profile that a module has room for, and where each pool is taken."""

    taken: tuple[tuple[Bind, ast.Assign], ...]

    def of(self, gate: Gate, found: Found, place: Place) -> Bind | None:
        """The bind that answers a gate: one in a method, on the very pool, for the capability."""
        method = gate.scope.rpartition(".")[0]
        for bind, _ in self.taken:
            asked = (method, gate.answer) == (bind.scope, AllOf((bind.capability,)))
            later = not gate.scope.endswith(".__init__")
            if asked and later and _written(found.operand, place) == bind.operand:
                return bind
        return None

    def edit(self, bind: Bind, text: SourceText) -> Edit:
        """Asks after the pool was taken."""
        statement = next(taken for known, taken in self.taken if known is bind)
        start, line = text.line_of(statement.end_lineno or statement.lineno)
        first = text.line_of(statement.lineno)[1]
        indent = first[: len(first) - len(first.lstrip())]
        lines = (
            f"{indent}self.{bind.name} = (",
            f"{indent}    {bind.operand}",
            f"{indent}    if isinstance({bind.operand}, {bind.capability})",
            f"{indent}    else None",
            f"{indent})",
        )
        at = start + len(line)
        return Edit(at, at, "".join(f"{each}{text.newline}" for each in lines))


def views_of(module: ast.Module, file: str, text: SourceText, profile: Profile) -> Views:
    """The binds of this file whose pool is taken exactly once, in `__init__`, under a free name."""
    found: list[tuple[Bind, ast.Assign]] = []
    for bind in profile.binds:
        if file_is(file, bind.file) and not re.search(rf"\.{bind.name}\b", text.text):
            cls = next((c for c in _classes(module) if c.name == bind.scope), None)
            taken = list(_assignments(cls, bind.operand)) if cls else []
            if len(taken) == 1 and cls is not None and taken[0] in _init_of(cls):
                found.append((bind, taken[0]))
    return Views(tuple(found))


def _classes(module: ast.Module) -> Iterator[ast.ClassDef]:
    return (node for node in module.body if isinstance(node, ast.ClassDef))


def _init_of(cls: ast.ClassDef) -> list[ast.stmt]:
    for node in cls.body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            return node.body
    return []


def _assignments(cls: ast.ClassDef, operand: str) -> Iterator[ast.Assign]:
    for node in ast.walk(cls):
        match node:
            case ast.Assign(targets=targets):
                if any(ast.unparse(target) == operand for target in targets):
                    yield node
            case _:
                pass


def _written(operand: ast.expr, place: Place) -> str:
    """The operand, or what its name was assigned in the same method, once."""
    if isinstance(operand, ast.Name):
        found = place.names.look_up(operand.id)
        if found is not None and found[0] is place.names and len(found[1]) == 1:
            (bound,) = found[1]
            if isinstance(bound, Assigned):
                return ast.unparse(bound.value)
    return ast.unparse(operand)
