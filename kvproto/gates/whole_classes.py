"""Whether what a gate asks for is all and only the pool classes that were read off it."""

from __future__ import annotations

import ast

from .class_values import CONTAINERS, DEPTH, ClassValues
from .scopes import Assigned, Defined, Imported, Scope

__all__ = ["what_else"]

_CHOSEN = "which class it asks for is chosen at run time"


def what_else(expression: ast.expr, scope: Scope, values: ClassValues) -> str:
    """Why `values.all_of` is not the whole of a class expression; empty where it is.

    A test that replaces the expression must not lose a class that the profile does not know, and
    must not ask for two classes where the code asks for one of them.
    """
    return _else(expression, scope, values, DEPTH)


def _else(expression: ast.expr, scope: Scope, values: ClassValues, depth: int) -> str:
    match expression:
        case _ if depth == 0:
            return _also(expression)
        case ast.Name():
            return _of_name(expression, scope, values, depth)
        case ast.Attribute():
            return _of_attribute(expression, scope, values)
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            pass
        case ast.BinOp(left=left, op=ast.BitOr() | ast.Add(), right=right):
            parts = [left, right]
        case ast.Starred(value=value):
            parts = [value]
        case ast.Subscript(value=ast.Name(id="Union") | ast.Attribute(attr="Union"), slice=index):
            parts = [index]
        case ast.Call(func=ast.Name(id=name), args=[_] as parts, keywords=[]) if (
            name in CONTAINERS and scope.look_up(name) is None
        ):
            pass
        case ast.IfExp() | ast.BoolOp() | ast.Subscript() | ast.Dict():
            return _CHOSEN
        case ast.Call(func=ast.Attribute(attr="get" | "values")):
            return _CHOSEN
        case _:
            return _also(expression)
    return next((why for part in parts if (why := _else(part, scope, values, depth - 1))), "")


def _of_name(name: ast.Name, scope: Scope, values: ClassValues, depth: int) -> str:
    found = scope.look_up(name.id)
    if found is None:
        if not values.named(name, scope):
            return _also(name)
        foreign = any(not values.is_ours(star.name) for star in scope.stars)
        return f"which `import *` {name.id} is from is not written there" if foreign else ""
    home, bounds = found
    if any(isinstance(bound, Imported | Defined) for bound in bounds):
        # Imported twice (for checkers, and where it runs) it is still one class.
        alike = {bound.name if isinstance(bound, Imported) else bound for bound in bounds}
        if len(alike) > 1:
            return f"{name.id} has several meanings in this module"
        return "" if values.named(name, scope) else _also(name)
    match bounds:
        case [Assigned(value=ast.List() | ast.Set() | ast.Dict())]:
            return f"{name.id} may be added to"
        case [Assigned(value=value)]:
            return _else(value, home, values, depth - 1)
        case _:
            return f"{name.id} has several meanings in this module"


def _of_attribute(expression: ast.Attribute, scope: Scope, values: ClassValues) -> str:
    if not values.named(expression, scope):
        return _also(expression)
    first: ast.expr = expression
    while isinstance(first, ast.Attribute):
        first = first.value
    found = scope.look_up(first.id) if isinstance(first, ast.Name) else None
    if found is None or not all(isinstance(bound, Imported) for bound in found[1]):
        return f"{ast.unparse(first)} has several meanings in this module"
    return ""


def _also(expression: ast.expr) -> str:
    return f"it also names {ast.unparse(expression)}"
