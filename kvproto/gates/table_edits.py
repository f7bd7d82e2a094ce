"""Tables of classes with a capability beside each class, where nothing else is done with them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from .class_tables import ClassTable
from .old_imports import uses_of
from .scopes import Assigned, Scope, scopes_of
from .source_text import Edit, SourceText

__all__ = ["EITHER", "is_only_asked", "table_edit"]

EITHER = "either"
"""The function that makes one class of several."""


def table_edit(table: ClassTable, capabilities: Sequence[str], text: SourceText) -> Edit:
    """The table with `either(Class, Capability)` for each class; the rest of it as it is."""
    start, end = text.span(table.written)
    at, parts = start, list[str]()
    for value, capability in zip(table.values, capabilities, strict=True):
        first, last = text.span(value)
        written = f"{EITHER}({text.text[first:last]}, {capability})"
        parts += [text.text[at:first], written]
        at = last
    return Edit(start, end, "".join([*parts, text.text[at:end]]))


def is_only_asked(table: ClassTable) -> bool:
    """Whether its module uses the table's classes for nothing but `isinstance`, `issubclass`, and
    their names: then another class object with the same answers does as well.
    """
    scopes = scopes_of(table.module)
    return _Uses(table.module, scopes).are_asked(table.name, scopes[table.module])


class _Uses:
    def __init__(self, module: ast.Module, scopes: dict[ast.AST, Scope]) -> None:
        self._scopes = scopes
        self._uses = list(uses_of(module, scopes[module], scopes))
        self._parents = {
            child: node for node in ast.walk(module) for child in ast.iter_child_nodes(node)
        }

    def are_asked(self, name: str, home: Scope) -> bool:
        """Every place that reads this name of this scope."""
        places = (node for node, scope, used in self._uses if used == name and scope is home)
        return all(self._is_asked(node) for node in places)

    def _is_asked(self, node: ast.expr) -> bool:
        match self._parents[node]:
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, asked]):
                return asked is node
            case ast.Attribute(attr="__name__" | "__qualname__", ctx=ast.Load()):
                return True
            case ast.Subscript(value=value, ctx=ast.Load()) as taken:
                return value is node and self._is_asked(taken)
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if value is node:
                homes = list(self._bound_to(name, node))
                return bool(homes) and all(self.are_asked(name, home) for home in homes)
            case _:
                return False

    def _bound_to(self, name: str, value: ast.expr) -> Iterator[Scope]:
        for scope in self._scopes.values():
            bounds = scope.bound.get(name, [])
            if any(isinstance(bound, Assigned) and bound.value is value for bound in bounds):
                yield scope
