"""Imports the names that rewritten tests use, where a module's imports end."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Mapping

from .files import file_is
from .profile import Profile
from .scopes import Bound, Imported, Scope
from .source_text import Edit, SourceText

__all__ = ["import_edits", "module_of", "taken_names"]

_WIDTH = 88


def module_of(name: str, file: str, profile: Profile) -> str:
    """Where a capability, or `declares`, is imported from in a file ("" for none in particular)."""
    for place, known, module in profile.modules_of_files:
        if name == known and file_is(file, place):
            return module
    return profile.modules.get(name, "kvproto.protocols")


def taken_names(
    module: ast.Module, scopes: Collection[Scope], names: Iterable[str], file: str, profile: Profile
) -> set[str]:
    """Those names that already mean something else anywhere in the module, or may: that it reads
    and only an `import *` can have bound.
    """
    wanted = {name: module_of(name, file, profile) for name in names}
    bound = {name for scope in scopes for name in scope.bound}
    read = {node.id for node in ast.walk(module) if isinstance(node, ast.Name)}
    stars = [star.name for scope in scopes if scope.parent is None for star in scope.stars]
    from_stars = {
        name
        for name in wanted.keys() & read - bound
        if any(star != f"{wanted[name]}.*" for star in stars)
    }
    return from_stars | {
        name
        for scope in scopes
        for name in wanted.keys() & scope.bound.keys()
        if any(not _is(each, f"{wanted[name]}.{name}") for each in scope.bound[name])
    }


def import_edits(
    module: ast.Module, top: Scope, modules: Mapping[str, str], source: SourceText
) -> list[Edit]:
    """One insertion of the imports that are missing at the top; `modules` has each name's."""
    missing = sorted(name for name in modules if not _is_there(name, module, top))
    by_module: dict[str, list[str]] = {}
    for name in missing:
        by_module.setdefault(modules[name], []).append(name)
    if not by_module:
        return []
    at = _end_of_imports(module, source)
    before = "" if source.text[:at].endswith(("\n", "\r")) or not at else source.newline
    lines = [_statement(where, by_module[where], source.newline) for where in sorted(by_module)]
    return [Edit(at, at, before + "".join(lines))]


def _is_there(name: str, module: ast.Module, top: Scope) -> bool:
    """Whether it is imported whenever the module is: not under a condition."""
    bounds = top.bound.get(name, [])
    return any(isinstance(bound, Imported) and bound.node in module.body for bound in bounds)


def _is(bound: Bound, name: str) -> bool:
    return isinstance(bound, Imported) and bound.name == name


def _statement(module: str, names: list[str], newline: str) -> str:
    line = f"from {module} import {', '.join(names)}"
    if len(line) <= _WIDTH:
        return line + newline
    listed = "".join(f"    {name},{newline}" for name in names)
    return f"from {module} import ({newline}{listed}){newline}"


def _end_of_imports(module: ast.Module, source: SourceText) -> int:
    """After the last import before anything else, else after the docstring, else at the top."""
    last: ast.stmt | None = None
    for statement in module.body:
        if isinstance(statement, ast.Import | ast.ImportFrom) or (
            statement is module.body[0] and _is_docstring(statement)
        ):
            last = statement
        else:
            break
    if last is None:
        return _first_line(module, source)
    start, text = source.line_of(last.end_lineno or last.lineno)
    return start + len(text)


def _first_line(module: ast.Module, source: SourceText) -> int:
    if not module.body:
        return len(source.text)
    first = module.body[0]
    decorators = getattr(first, "decorator_list", [])
    return source.line_of(min(node.lineno for node in [first, *decorators]))[0]


def _is_docstring(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )
