"""Capabilities that a class asks for once: its methods test an attribute instead."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from .answers import AllOf
from .files import file_is
from .found import Found, Place
from .gate import Gate
from .profile import Bind, Profile
from .scopes import Assigned, Scope, scopes_of
from .source_text import Edit, SourceText

__all__ = ["Views", "views_of"]


Taken: TypeAlias = ast.Assign | ast.AnnAssign


@dataclass(frozen=True, slots=True)
class Views:
    """The binds of a profile that a module has room for, and where each pool is taken."""

    taken: tuple[tuple[Bind, Taken], ...]

    def of(self, gate: Gate, found: Found, place: Place) -> Bind | str | None:
        """The bind that answers a gate: one in a method, on the very pool, for the capability.

        Or why a person has to say whether it does: the name that is asked is bound to more.
        """
        method = gate.scope.rpartition(".")[0]
        later = not gate.scope.endswith(".__init__") and _is_bound_once("self", place.names)
        for bind, _ in self.taken:
            asked = (method, gate.answer) == (bind.scope, AllOf((bind.capability,)))
            if not (asked and later):
                continue
            if ast.unparse(found.operand) == bind.operand:
                return bind
            values = _values(found.operand, place.names)
            if values == [bind.operand]:
                return bind
            if bind.operand in values:
                named = ast.unparse(found.operand)
                return (
                    f"{named} is {bind.operand}, which is bound once, or what else it is bound to"
                )
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
    found: list[tuple[Bind, Taken]] = []
    for bind in profile.binds:
        if file_is(file, bind.file) and not re.search(rf"\.{bind.name}\b", text.text):
            cls = next((c for c in _classes(module) if c.name == bind.scope), None)
            taken = _taken(module, cls, bind) if cls else None
            if taken is not None and _is_alone(taken, text):
                found.append((bind, taken))
    return Views(tuple(found))


def _classes(module: ast.Module) -> Iterator[ast.ClassDef]:
    return (node for node in module.body if isinstance(node, ast.ClassDef))


def _taken(module: ast.Module, cls: ast.ClassDef, bind: Bind) -> Taken | None:
    """The statement of `__init__` that alone in the module stores the pool."""
    attribute = bind.operand.removeprefix("self.")
    stores = [node for node in ast.walk(module) if _stores(node, attribute)]
    if len(stores) != 1 or _names(cls) & {bind.name, attribute, "__slots__", "__setattr__"}:
        return None
    for node in _init_of(cls):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(stores[0] in ast.walk(target) for target in targets):
                return node if ast.unparse(stores[0]) == bind.operand else None
    return None


def _stores(node: ast.AST, attribute: str) -> bool:
    """Whether it stores or deletes an attribute of this name on anything, or may do so."""
    match node:
        case ast.Attribute(attr="__dict__" | "__setattr__" | "__delattr__"):
            return True
        case ast.Attribute(attr=name, ctx=ast.Store() | ast.Del()):
            return name == attribute
        case ast.Call(func=ast.Name(id="setattr" | "delattr"), args=[_, name, *_]):
            return not isinstance(name, ast.Constant) or name.value == attribute
        case ast.Call(func=ast.Name(id="vars")):
            return True
        case _:
            return False


def _names(cls: ast.ClassDef) -> set[str]:
    """What the body of a class binds."""
    return set(scopes_of(ast.Module([cls], []))[cls].bound)


def _init_of(cls: ast.ClassDef) -> list[ast.stmt]:
    for node in cls.body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            return node.body
    return []


def _is_alone(statement: ast.stmt, text: SourceText) -> bool:
    """Whether its lines hold nothing else but a comment: another line can follow."""
    end_line, end_column = statement.end_lineno or statement.lineno, statement.end_col_offset or 0
    start, _ = text.line_of(statement.lineno)
    before = text.text[start : text.offset(statement.lineno, statement.col_offset)]
    last, line = text.line_of(end_line)
    after = text.text[text.offset(end_line, end_column) : last + len(line)].strip()
    return (
        not before.strip() and (not after or after.startswith("#")) and line.endswith(("\n", "\r"))
    )


def _is_bound_once(name: str, scope: Scope) -> bool:
    found = scope.look_up(name)
    return found is not None and len(found[1]) == 1


def _values(operand: ast.expr, scope: Scope) -> list[str]:
    """What a name stands for that is bound in the same method; "" for what is not written there."""
    found = scope.look_up(operand.id) if isinstance(operand, ast.Name) else None
    if found is None or found[0] is not scope:
        return []
    return [ast.unparse(b.value) if isinstance(b, Assigned) else "" for b in found[1]]
