"""Takes out imports of classes that nothing uses any more once their gates are rewritten."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

from .import_removal import without_aliases
from .scopes import Imported, Scope
from .source_text import Edit, SourceText

__all__ = ["Exported", "removal_edits", "uses_of"]

_TYPED = re.compile(r"#[ \t]*type:([^\r\n]*)")
_WORD = re.compile(r"\w+")

Exported: TypeAlias = Callable[[str], bool]
"""Whether another module may import this name from the one at hand."""


def removal_edits(
    module: ast.Module,
    scopes: Mapping[ast.AST, Scope],
    gone: Iterable[ast.AST],
    source: SourceText,
    exported: Exported,
) -> list[Edit]:
    """The edits that take out what only the nodes that are `gone` used.

    A name that is imported at the top of the module stays while another module may import it
    from there, any name stays while it is in a string or a comment that could be an annotation, and
    an import under `try` stays: that it fails may be what is tried. One in the body of a class
    makes an attribute of it, and stays.
    """
    left_out = {below for node in gone for below in ast.walk(node)}
    uses = list(uses_of(module, scopes[module], scopes))
    candidates = {(id(home), name) for node, home, name in uses if node in left_out}
    still = {(id(home), name) for node, home, name in uses if node not in left_out}
    quoted = set(_quoted_names(module, {name for _, name in candidates}))
    quoted.update(*(_WORD.findall(comment) for comment in _TYPED.findall(source.text)))
    tried = set(_tried(module))
    unused: dict[ast.ImportFrom, set[str]] = {}
    for scope in scopes.values():
        for name, bounds in scope.bound.items():
            if (id(scope), name) not in candidates - still or name in quoted:
                continue
            if isinstance(scope.node, ast.ClassDef):  # an attribute, read from anywhere
                continue
            if isinstance(scope.node, ast.Module) and exported(name):
                continue
            for bound in bounds:
                if not isinstance(bound, Imported) or bound.node in tried:
                    continue
                if isinstance(bound.node, ast.ImportFrom):
                    unused.setdefault(bound.node, set()).add(name)
    edits = [without_aliases(module, node, names, source) for node, names in unused.items()]
    return [edit for some in edits for edit in some]


def _tried(module: ast.Module) -> Iterator[ast.AST]:
    for node in ast.walk(module):
        if isinstance(node, ast.Try | ast.TryStar):
            yield from ast.walk(node)


def uses_of(
    node: ast.AST, scope: Scope, scopes: Mapping[ast.AST, Scope]
) -> Iterator[tuple[ast.Name, Scope, str]]:
    """Every name below a node that is not assigned there, with the scope that bound it."""
    scope = scopes.get(node, scope)
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store):
        found = scope.look_up(node.id)
        if found is not None:
            yield node, found[0], node.id
    for child in ast.iter_child_nodes(node):
        yield from uses_of(child, scope, scopes)


def _quoted_names(module: ast.Module, names: set[str]) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            yield from _WORD.findall(ast.unparse(node.value))
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if not any(name in node.value for name in names):
                continue
            try:
                quoted = ast.parse(node.value.strip(), mode="eval")
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                continue
            yield from (name.id for name in ast.walk(quoted) if isinstance(name, ast.Name))
