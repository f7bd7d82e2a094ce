"""Which pool classes an expression stands for: names, aliases, tuples, unions, tables of classes.

Followed through assignments of this module, not into other modules.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from .profile import Profile
from .scopes import Assigned, Defined, Imported, Scope

__all__ = ["CONTAINERS", "DEPTH", "ClassValues"]

_TYPING = {"Union", "Optional", "Type", "type"}
CONTAINERS = {"tuple", "frozenset", "set", "list"}
"""Functions that give their one argument's classes back."""
DEPTH = 8
"""How many steps a class expression is followed."""


@dataclass(frozen=True, slots=True)
class ClassValues:
    """Reads class expressions of one module.

    A class counts where it is imported from the profile's package, relatively, or defined here;
    also by `import *`, where nothing here binds its name.
    """

    profile: Profile

    def named(self, expression: ast.expr, scope: Scope) -> str | None:
        """The pool class that a name or a dotted name is, by import or by definition."""
        if isinstance(expression, ast.Name):
            return self._of_name(expression.id, scope)
        dotted = self.dotted(expression, scope)
        return self._known(dotted) if dotted else None

    def all_of(self, expression: ast.expr, scope: Scope) -> tuple[str, ...]:
        """The pool classes that a class expression may name, in their order, each once.

        It may name others too, or only one of them: `whole_classes` tells.
        """
        return tuple(dict.fromkeys(self._all(expression, scope, DEPTH)))

    def dotted(self, expression: ast.expr, scope: Scope) -> str | None:
        """`alias.sub.Name` under the name it was imported by; None where it was not imported."""
        if isinstance(expression, ast.Attribute):
            above = self.dotted(expression.value, scope)
            return f"{above}.{expression.attr}" if above else None
        if not isinstance(expression, ast.Name):
            return None
        found = scope.look_up(expression.id)
        imported = [b.name for b in found[1] if isinstance(b, Imported)] if found else []
        return imported[0] if imported else None

    def _of_name(self, name: str, scope: Scope) -> str | None:
        found = scope.look_up(name)
        if found is None:
            starred = any(self.is_ours(star.name) for star in scope.stars)
            return name if starred and name in self.profile.classes else None
        for bound in found[1]:
            if isinstance(bound, Imported) and (known := self._known(bound.name)):
                return known
            if isinstance(bound, Defined) and name in self.profile.classes:
                return name
        return None

    def _known(self, dotted: str) -> str | None:
        name = dotted.rpartition(".")[2]
        return name if self.is_ours(dotted) and name in self.profile.classes else None

    def is_ours(self, dotted: str) -> bool:
        """Whether a dotted name is of the profile's package."""
        return dotted.startswith((".", f"{self.profile.package}."))

    def _all(self, expression: ast.expr, scope: Scope, depth: int) -> list[str]:
        if depth == 0:
            return []
        match expression:
            case ast.Name() | ast.Attribute():
                known = self.named(expression, scope)
                return [known] if known else self._assigned(expression, scope, depth)
            case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
                pass
            case ast.BoolOp(values=parts):
                pass
            case ast.BinOp(left=left, op=ast.BitOr() | ast.Add(), right=right):
                parts = [left, right]
            case ast.IfExp(body=body, orelse=orelse):
                parts = [body, orelse]
            case ast.Starred(value=value):
                parts = [value]
            case ast.Dict(values=parts):
                pass
            case ast.Subscript(value=value, slice=index):
                parts = [index] if self._is_typing(value) else [value]
            case ast.Call(func=ast.Attribute(value=value, attr="get" | "values")):
                parts = [value]
            case ast.Call(func=ast.Name(id=name), args=parts) if name in CONTAINERS:
                pass
            case _:
                parts = []
        return [name for part in parts for name in self._all(part, scope, depth - 1)]

    def _assigned(self, expression: ast.expr, scope: Scope, depth: int) -> list[str]:
        if not isinstance(expression, ast.Name):
            return []
        found = scope.look_up(expression.id)
        if found is None:
            return []
        home, bounds = found
        values = [bound.value for bound in bounds if isinstance(bound, Assigned)]
        return [name for value in values for name in self._all(value, home, depth - 1)]

    def _is_typing(self, expression: ast.expr) -> bool:
        name = expression.attr if isinstance(expression, ast.Attribute) else None
        return (expression.id if isinstance(expression, ast.Name) else name) in _TYPING
