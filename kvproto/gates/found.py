"""What the finders hand on: a gate before anybody asked what answers it."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from .gate import GateKind
from .scopes import Scope

__all__ = ["Found", "Place", "last_name"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The node that asks, the expression that is asked, and about what."""

    node: ast.expr | ast.pattern
    kind: GateKind
    operand: ast.expr
    classes: tuple[str, ...] = ()
    attribute: str | None = None
    unsure: str = ""
    """Why `classes` of `operand` is not all that is asked there; empty where it is."""

    @property
    def only_asks(self) -> bool:
        """Whether it is a class pattern that takes nothing out of the object: `case Pool():`."""
        node = self.node
        return isinstance(node, ast.MatchClass) and not node.patterns and not node.kwd_patterns


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where in a module a node stands."""

    scope: str
    names: Scope
    """Where its names are looked up."""
    asserted: bool
    typing_only: bool


def last_name(expression: ast.expr) -> str | None:
    """The name that tells what it is: the last of `a.b.pool`, of `get_pool()`, of `pools[0]`."""
    match expression:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Call(func=inner) | ast.Subscript(value=inner) | ast.NamedExpr(value=inner):
            return last_name(inner)
        case _:
            return None
