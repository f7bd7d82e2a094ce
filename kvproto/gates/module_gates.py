"""Finds and answers the gates of one module."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .class_gates import class_gates
from .class_values import ClassValues
from .duck_gates import duck_gates
from .files import file_is
from .found import Found, Place
from .gate import Gate
from .profile import Profile
from .rules_for import rule_for
from .scopes import scopes_of

__all__ = ["found_in", "gates_of"]


def gates_of(source: str | bytes, file: str, profile: Profile) -> list[Gate]:
    """The gates of a module's source, by position.

    :raises SyntaxError: where this Python cannot parse it.
    """
    found = found_in(ast.parse(source), file, profile)
    gates = [_gate(each, place, file, profile) for each, place in found]
    kept = [gate for gate in gates if not _excluded(gate, profile)]
    return sorted(kept, key=lambda gate: (gate.line, gate.column, gate.kind, gate.subject))


def found_in(module: ast.Module, file: str, profile: Profile) -> list[tuple[Found, Place]]:
    """The gates of a parsed module, with where they stand; in the order of the source."""
    walk = _Walk(module, file, profile)
    walk.visit(module)
    return walk.found


def _gate(found: Found, place: Place, file: str, profile: Profile) -> Gate:
    operand = ast.unparse(found.operand)
    rule, why = rule_for(found, place, file, operand, profile)
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
        answer=rule.answer,
        why=why,
    )


def _excluded(gate: Gate, profile: Profile) -> bool:
    return gate.attribute is not None and any(
        file_is(gate.file, each.file) and gate.operand == each.operand for each in profile.not_pools
    )


class _Walk(ast.NodeVisitor):
    def __init__(self, module: ast.Module, file: str, profile: Profile) -> None:
        self.found: list[tuple[Found, Place]] = []
        self._file = file
        self._profile = profile
        self._scopes = scopes_of(module)
        self._values = ClassValues(profile)
        self._scope = self._scopes[module]
        self._asserted = False
        self._typing_only = False

    def visit(self, node: ast.AST) -> None:
        for found in self._at(node):
            place = Place(
                scope=self._scope.qualified_name,
                asserted=self._asserted,
                typing_only=self._typing_only,
            )
            self.found.append((found, place))
        super().visit(node)

    def visit_Assert(self, node: ast.Assert) -> None:
        self._asserted = True
        self.visit(node.test)
        self._asserted = False

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        outside = self._typing_only
        self._typing_only = outside or _is_type_checking(node.test)
        for statement in node.body:
            self.visit(statement)
        self._typing_only = outside
        for statement in node.orelse:
            self.visit(statement)

    def generic_visit(self, node: ast.AST) -> None:
        outside = self._scope
        self._scope = self._scopes.get(node, outside)
        super().generic_visit(node)
        self._scope = outside

    def _at(self, node: ast.AST) -> Iterator[Found]:
        yield from class_gates(node, self._scope, self._values)
        yield from duck_gates(node, self._scope, self._file, self._profile)


def _is_type_checking(test: ast.expr) -> bool:
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", None)
    return name == "TYPE_CHECKING"
