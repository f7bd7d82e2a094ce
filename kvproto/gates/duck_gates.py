"""Finds where a member of a pool is tried: `hasattr`, `getattr` with a default, AttributeError."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .files import file_is
from .found import Found, last_name
from .gate import GateKind
from .profile import Profile
from .scopes import Scope

__all__ = ["duck_gates"]


def duck_gates(node: ast.AST, scope: Scope, file: str, profile: Profile) -> Iterator[Found]:
    """The duck gates whose outermost node this is.

    A computed member name is one with or without a default: no checker sees which is meant.
    A class that asks itself (`self`) is no consumer.
    """
    match node:
        case ast.Call(func=ast.Name(id="hasattr"), args=[asked, name]):
            yield from _probe(node, "hasattr", asked, name, file, profile)
        case ast.Call(func=ast.Name(id="getattr"), args=[asked, name, *default]):
            if default or not isinstance(name, ast.Constant):
                yield from _probe(node, "getattr", asked, name, file, profile)
        case ast.Try(body=body, handlers=handlers):
            if any(_catches_missing(handler.type, scope) for handler in handlers):
                yield from _tried(body, file, profile)
        case _:
            pass


def _probe(
    node: ast.Call, kind: GateKind, asked: ast.expr, name: ast.expr, file: str, profile: Profile
) -> Iterator[Found]:
    if not _is_pool(asked, file, profile):
        return
    attribute = name.value if isinstance(name, ast.Constant) else f"<{ast.unparse(name)}>"
    yield Found(node=node, kind=kind, operand=asked, attribute=str(attribute))


def _tried(body: list[ast.stmt], file: str, profile: Profile) -> Iterator[Found]:
    """Of `pool.state.rows` only the whole is one: whichever part is missing, it is not there."""
    inner: set[ast.expr] = set()
    for node in (node for statement in body for node in ast.walk(statement)):
        match node:
            case ast.Attribute(value=asked, attr=name, ctx=ast.Load()) if node not in inner:
                if name in profile.attributes and _is_pool(asked, file, profile):
                    inner.add(asked)
                    yield Found(node=node, kind="try-except", operand=asked, attribute=name)
            case _:
                pass


def _is_pool(expression: ast.expr, file: str, profile: Profile) -> bool:
    name = last_name(expression)
    return name in profile.operands or any(
        name == operand and file_is(file, place) for place, operand in profile.pools_of_files
    )


def _catches_missing(caught: ast.expr | None, scope: Scope) -> bool:
    match caught:
        case ast.Name(id=name):
            return name == "AttributeError" and scope.look_up(name) is None
        case ast.Tuple(elts=parts):
            return any(_catches_missing(part, scope) for part in parts)
        case _:
            return False
