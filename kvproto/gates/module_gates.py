"""Finds and answers the gates of one module."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .answers import AllOf, AnyOf, Person
from .class_gates import class_gates
from .class_values import ClassValues
from .duck_gates import duck_gates
from .files import file_is
from .found import Found, Place
from .gate import Gate
from .profile import Profile
from .rules_for import rule_for
from .scopes import OPENING, Scope, scopes_of

__all__ = ["found_in", "gate_of", "gates_of"]

_ASKING = (ast.Call, ast.Subscript, ast.Compare, ast.Match, ast.Try)
"""The nodes at which a finder may find something."""


def gates_of(source: str | bytes, file: str, profile: Profile) -> list[Gate]:
    """The gates of a module's source, by position.

    :raises SyntaxError: where this Python cannot parse it.
    """
    found = found_in(ast.parse(source), file, profile)
    gates = [gate_of(each, place, file, profile) for each, place in found]
    kept = [gate for gate in gates if not _excluded(gate, profile)]
    return sorted(kept, key=lambda gate: (gate.line, gate.column, gate.kind, gate.subject))


def found_in(module: ast.Module, file: str, profile: Profile) -> list[tuple[Found, Place]]:
    """The gates of a parsed module, with where they stand; in the order of the source."""
    scopes = scopes_of(module)
    walk = _Walk(scopes, file, profile)
    walk.visit(module, scopes[module], asserted=False, typing_only=False)
    return walk.found


def gate_of(found: Found, place: Place, file: str, profile: Profile) -> Gate:
    """One of what `found_in` found, with the rule that it falls under."""
    operand = ast.unparse(found.operand)
    rule, why = rule_for(found, place, file, operand, profile)
    answer = rule.answer
    if found.unsure and isinstance(answer, AllOf | AnyOf):
        answer = Person(found.unsure)
    return Gate(
        file=file,
        line=found.node.lineno,
        column=found.node.col_offset + 1,
        kind=found.kind,
        scope=place.scope,
        operand=operand,
        classes=found.classes,
        attribute=found.attribute,
        asserted=place.asserted,
        typing_only=place.typing_only,
        hot=any(file_is(file, at) and place.scope == scope for at, scope in profile.hot),
        asks=rule.asks,
        answer=answer,
        why=why,
    )


def _excluded(gate: Gate, profile: Profile) -> bool:
    return gate.attribute is not None and any(
        file_is(gate.file, each.file) and gate.operand == each.operand for each in profile.not_pools
    )


class _Walk:
    """Goes through a module once, knowing at each node where it stands."""

    def __init__(self, scopes: dict[ast.AST, Scope], file: str, profile: Profile) -> None:
        self.found: list[tuple[Found, Place]] = []
        self._file = file
        self._profile = profile
        self._scopes = scopes
        self._values = ClassValues(profile)

    def visit(self, node: ast.AST, scope: Scope, asserted: bool, typing_only: bool) -> None:
        """The node and all below it."""
        kind = type(node)
        if kind in _ASKING:
            place = Place(
                scope=scope.qualified_name,
                names=scope,
                asserted=asserted,
                typing_only=typing_only,
            )
            self.found += [(found, place) for found in self._at(node, scope)]
        if kind in OPENING:
            scope = self._scopes.get(node, scope)
        if isinstance(node, ast.Assert):
            self.visit(node.test, scope, True, typing_only)
        elif isinstance(node, ast.If) and _is_type_checking(node.test):
            for statement in node.body:
                self.visit(statement, scope, asserted, True)
            for statement in node.orelse:
                self.visit(statement, scope, asserted, typing_only)
        else:
            for child in ast.iter_child_nodes(node):
                self.visit(child, scope, asserted, typing_only)

    def _at(self, node: ast.AST, scope: Scope) -> Iterator[Found]:
        yield from class_gates(node, scope, self._values)
        yield from duck_gates(node, scope, self._file, self._profile)


def _is_type_checking(test: ast.expr) -> bool:
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", None)
    return name == "TYPE_CHECKING"
