"""Tables of classes that a module keeps to ask for one of them later."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from .found import Found
from .scopes import Assigned, Scope

__all__ = ["ClassTable", "table_of"]


@dataclass(frozen=True, slots=True)
class ClassTable:
    """A name of the module, assigned once, and the dictionary or tuple that it stands for."""

    name: str
    written: ast.Dict | ast.Tuple
    module: ast.Module
    names: Scope
    """Those of the module."""

    @property
    def values(self) -> list[ast.expr]:
        """The classes, as they are written."""
        return self.written.values if isinstance(self.written, ast.Dict) else self.written.elts


def table_of(found: Found, names: Scope) -> ClassTable | None:
    """The table that the second argument of `isinstance` or `issubclass` is, or is taken from."""
    match found.node:
        case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, asked]):
            return _table(asked, names)
        case _:
            return None


def _table(expression: ast.expr, scope: Scope) -> ClassTable | None:
    match expression:
        case ast.Subscript(value=ast.Name() as taken_from):
            return _table(taken_from, scope)
        case ast.Name(id=name):
            found = scope.look_up(name)
            if found is None or len(found[1]) != 1 or not isinstance(found[1][0], Assigned):
                return None
            home, value = found[0], found[1][0].value
            if isinstance(value, ast.Dict | ast.Tuple) and isinstance(home.node, ast.Module):
                return ClassTable(name, value, home.node, home)
            return _table(value, home) if isinstance(value, ast.Subscript) else None
        case _:
            return None
