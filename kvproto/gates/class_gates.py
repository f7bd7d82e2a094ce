"""Finds where a class is asked for: calls, comparisons, tables keyed by class, class patterns."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .class_values import ClassValues
from .found import Found
from .scopes import Assigned, Scope
from .whole_classes import what_else

__all__ = ["class_gates"]

_COMPARED = (ast.Is, ast.IsNot, ast.Eq, ast.NotEq)
_CONTAINED = (ast.In, ast.NotIn)


def class_gates(node: ast.AST, scope: Scope, values: ClassValues) -> Iterator[Found]:
    """The class gates whose outermost node this is; at most one, but for comparisons in chains."""
    match node:
        case ast.Call(func=ast.Name(id="isinstance" | "issubclass" as kind), args=[asked, classes]):
            names = values.all_of(classes, scope)
            if names and scope.look_up(kind) is None:
                unsure = what_else(classes, scope, values)
                yield Found(node=node, kind=kind, operand=asked, classes=names, unsure=unsure)
        case ast.Call(func=ast.Attribute(value=table, attr="get"), args=[key, *_]):
            yield from _dispatch(node, table, key, scope, values)
        case ast.Subscript(value=table, slice=key):
            yield from _dispatch(node, table, key, scope, values)
        case ast.Compare():
            yield from _comparisons(node, scope, values)
        case ast.Match(subject=subject, cases=cases):
            for case in cases:
                for pattern in ast.walk(case.pattern):
                    if isinstance(pattern, ast.MatchClass):
                        yield from _pattern(pattern, subject, scope, values)
        case _:
            pass


def _pattern(
    pattern: ast.MatchClass, subject: ast.expr, scope: Scope, values: ClassValues
) -> Iterator[Found]:
    if name := values.named(pattern.cls, scope):
        unsure = what_else(pattern.cls, scope, values)
        yield Found(node=pattern, kind="match", operand=subject, classes=(name,), unsure=unsure)


def _dispatch(
    node: ast.Call | ast.Subscript,
    table: ast.expr,
    key: ast.expr,
    scope: Scope,
    values: ClassValues,
) -> Iterator[Found]:
    asked = _typed(key, scope)
    written = _written(table, scope)
    if asked is None or not isinstance(written, ast.Dict):
        return
    keys = [name for k in written.keys if k and (name := values.named(k, scope))]
    if keys:
        yield Found(node=node, kind="dispatch", operand=asked, classes=tuple(dict.fromkeys(keys)))


def _comparisons(node: ast.Compare, scope: Scope, values: ClassValues) -> Iterator[Found]:
    left = node.left
    for operator, right in zip(node.ops, node.comparators, strict=True):
        if isinstance(operator, _COMPARED):
            found = _compared(node, left, right, scope, values)
            yield from found or _compared(node, right, left, scope, values)
        elif isinstance(operator, _CONTAINED):
            yield from _contained(node, left, right, scope, values)
        left = right


def _compared(
    node: ast.Compare, asked: ast.expr, other: ast.expr, scope: Scope, values: ClassValues
) -> list[Found]:
    # Whether a class could be imported asks nothing of a pool.
    if isinstance(asked, ast.Constant) and asked.value is None:
        return []
    if name := values.named(other, scope):
        return [_against(node, asked, (name,), scope, what_else(other, scope, values))]
    if (name := _class_name(other, values)) and (typed := _name_of_type(asked, scope)) is not None:
        return [Found(node=node, kind="class-name", operand=typed, classes=(name,))]
    match asked, other:
        case ast.Attribute(value=mine, attr=method), ast.Attribute(value=base, attr=same):
            name = values.named(base, scope)
            typed = _typed(mine, scope)
            if name and typed is not None and method == same:
                return [Found(node=node, kind="method-is", operand=typed, classes=(name,))]
        case _:
            pass
    return []


def _contained(
    node: ast.Compare, asked: ast.expr, others: ast.expr, scope: Scope, values: ClassValues
) -> Iterator[Found]:
    if (name := values.named(asked, scope)) and (kind := _with_bases(others)) is not None:
        typed = _typed(kind, scope)
        if typed is not None:
            unsure = what_else(asked, scope, values) or _moved(kind, typed, scope)
            yield Found(node=node, kind="isinstance", operand=typed, classes=(name,), unsure=unsure)
        return
    if (name := _class_name(asked, values)) and (typed := _name_of_type(others, scope)) is not None:
        yield Found(node=node, kind="class-name", operand=typed, classes=(name,))
    written = _written(others, scope)
    if isinstance(written, ast.Tuple | ast.List | ast.Set):
        strings = [name for part in written.elts if (name := _class_name(part, values))]
        typed = _name_of_type(asked, scope)
        if strings and typed is not None:
            yield Found(node=node, kind="class-name", operand=typed, classes=tuple(strings))
    if isinstance(written, ast.Dict):
        listed = [name for k in written.keys if k and (name := values.named(k, scope))]
        if listed and (typed := _typed(asked, scope)) is not None:
            yield Found(node=node, kind="dispatch", operand=typed, classes=tuple(listed))
    elif names := values.all_of(others, scope):
        yield _against(node, asked, names, scope, what_else(others, scope, values))


def _against(
    node: ast.Compare, asked: ast.expr, names: tuple[str, ...], scope: Scope, unsure: str
) -> Found:
    typed = _typed(asked, scope)
    if typed is None:
        return Found(node=node, kind="class-is", operand=asked, classes=names)
    unsure = unsure or _moved(asked, typed, scope)
    return Found(node=node, kind="type-is", operand=typed, classes=names, unsure=unsure)


def _moved(asked: ast.expr, typed: ast.expr, scope: Scope) -> str:
    """Why a name that a type was kept under may be that of another object; empty where not."""
    if isinstance(asked, ast.Name) and not _is_still(asked, typed, scope):
        return f"{asked.id} may be of another object than {ast.unparse(typed)} is by then"
    return ""


def _is_still(taken: ast.Name, pool: ast.expr, scope: Scope) -> bool:
    """Whether a pool is the one whose type was taken: the same function's argument, never bound
    again. What a loop binds, or an attribute holds, may be another by the time of the test.
    """
    if not isinstance(pool, ast.Name):
        return False
    if not isinstance(scope.node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    given = {node.arg for node in ast.walk(scope.node.args) if isinstance(node, ast.arg)}
    bound_once = all(len(scope.bound.get(name, [])) == 1 for name in (taken.id, pool.id))
    return pool.id in given and bound_once


def _typed(expression: ast.expr, scope: Scope) -> ast.expr | None:
    """What is asked in `type(pool)`, `pool.__class__`, or a name that was assigned one of these."""
    match _written(expression, scope):
        case ast.Call(func=ast.Name(id="type"), args=[asked]) if scope.look_up("type") is None:
            return asked
        case ast.Attribute(value=asked, attr="__class__"):
            return asked
        case _:
            return None


def _with_bases(expression: ast.expr) -> ast.expr | None:
    """The type in `C in type(pool).__mro__`, which is `isinstance(pool, C)`."""
    match expression:
        case (
            ast.Attribute(value=kind, attr="__mro__")
            | ast.Call(func=ast.Attribute(value=kind, attr="mro"), args=[])
        ):
            return kind
        case _:
            return None


def _name_of_type(expression: ast.expr, scope: Scope) -> ast.expr | None:
    match expression:
        case ast.Attribute(value=typed, attr="__name__" | "__qualname__"):
            return _typed(typed, scope)
        case _:
            return None


def _class_name(expression: ast.expr, values: ClassValues) -> str | None:
    match expression:
        case ast.Constant(value=str(name)) if name in values.profile.classes:
            return name
        case _:
            return None


def _written(expression: ast.expr, scope: Scope) -> ast.expr:
    """The value of a name that is assigned once, else the expression itself."""
    if not isinstance(expression, ast.Name):
        return expression
    found = scope.look_up(expression.id)
    if found is None or len(found[1]) != 1 or not isinstance(found[1][0], Assigned):
        return expression
    return found[1][0].value
