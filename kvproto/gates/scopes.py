"""What each name of a module may stand for, scope by scope, as Python looks names up."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias, get_args

__all__ = ["OPENING", "Assigned", "Bound", "Defined", "Imported", "Opaque", "Scope", "scopes_of"]

ScopeNode: TypeAlias = (
    ast.Module
    | ast.ClassDef
    | ast.FunctionDef
    | ast.AsyncFunctionDef
    | ast.Lambda
    | ast.ListComp
    | ast.SetComp
    | ast.DictComp
    | ast.GeneratorExp
)
OPENING = get_args(ScopeNode)
"""The nodes that open a scope."""
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True, slots=True)
class Imported:
    """A module or a member of one, by its full dotted name; relative ones keep their dots."""

    name: str
    node: ast.Import | ast.ImportFrom


@dataclass(frozen=True, slots=True)
class Defined:
    """A class of this module."""

    node: ast.ClassDef


@dataclass(frozen=True, slots=True)
class Assigned:
    """The value of an assignment to the name alone."""

    value: ast.expr


@dataclass(frozen=True, slots=True)
class Opaque:
    """A parameter, a loop variable, a function: anything whose value is not written there."""


Bound: TypeAlias = Imported | Defined | Assigned | Opaque


@dataclass(slots=True)
class Scope:
    """The names that one function, class, comprehension or module binds."""

    node: ast.AST
    """What opens it: a `ScopeNode`, or the first of the type parameters that it is for."""
    parent: Scope | None
    bound: dict[str, list[Bound]] = field(default_factory=dict[str, list[Bound]])
    outer: set[str] = field(default_factory=set[str])
    """Names it declares `nonlocal`."""
    top: set[str] = field(default_factory=set[str])
    """Names it declares `global`."""

    def look_up(self, name: str) -> tuple[Scope, list[Bound]] | None:
        """Where a name that is read here was bound, and to what; None for builtins."""
        scope: Scope | None = self
        while scope is not None:
            skipped = scope is not self and isinstance(scope.node, ast.ClassDef)
            if not skipped and name in scope.top:
                scope = scope.module
            if not skipped and name in scope.bound and name not in scope.outer:
                return scope, scope.bound[name]
            scope = scope.parent
        return None

    @property
    def module(self) -> Scope:
        """That of the whole module."""
        return self.parent.module if self.parent else self

    @property
    def stars(self) -> list[Imported]:
        """What every `import *` of the module imports, `module.*`."""
        return [b for b in self.module.bound.get("*", []) if isinstance(b, Imported)]

    @property
    def qualified_name(self) -> str:
        """`Class.method` and the like; empty for the module."""
        above = self.parent.qualified_name if self.parent else ""
        if not isinstance(self.node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            return above
        return f"{above}.{self.node.name}" if above else self.node.name


def scopes_of(module: ast.Module) -> dict[ast.AST, Scope]:
    """Every scope of a module, by the node that opens it."""
    scopes: dict[ast.AST, Scope] = {}
    top = scopes[module] = Scope(module, None)
    later: list[tuple[Scope, str, Bound]] = []
    _Binder(scopes, top, later).visit_all(module.body)
    for scope, name, bound in later:
        _bind_outside(scope, name, bound)
    return scopes


def _bind_outside(scope: Scope, name: str, bound: Bound) -> None:
    """Bind a name that a scope declares `nonlocal`, in the nearest function that has it."""
    outside = scope.parent
    while outside is not None:
        passes_on = isinstance(outside.node, ast.ClassDef) or name in outside.outer
        if not passes_on and name in outside.bound:
            outside.bound[name].append(bound)
            return
        outside = outside.parent


class _Binder(ast.NodeVisitor):
    def __init__(
        self,
        scopes: dict[ast.AST, Scope],
        scope: Scope,
        later: list[tuple[Scope, str, Bound]],
    ) -> None:
        self._scopes = scopes
        self._scope = scope
        self._later = later

    def visit_all(self, nodes: list[ast.stmt] | list[ast.expr]) -> None:
        for node in nodes:
            self.visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            top = alias.name.partition(".")[0]
            name = alias.name if alias.asname else top
            self._bind(alias.asname or top, Imported(name, node))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        source = "." * node.level + (node.module or "")
        for alias in node.names:
            joined = f"{source}{alias.name}" if source.endswith(".") else f"{source}.{alias.name}"
            self._bind(alias.asname or alias.name, Imported(joined, node))

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        for target in node.targets:
            self._bind_target(target, node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.visit(node.annotation)
        if node.value is not None:
            self.visit(node.value)
            self._bind_target(node.target, node.value)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        # A comprehension does not keep what is assigned in it.
        self.visit(node.value)
        scope: Scope = self._scope
        while scope.parent is not None and isinstance(scope.node, _COMPREHENSIONS):
            scope = scope.parent
        self._bind(node.target.id, Assigned(node.value), scope)

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load):
            self._bind(node.id, Opaque())

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self._bind(node.name, Opaque())
        self.generic_visit(node)

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        if node.name:
            self._bind(node.name, Opaque())
        self.generic_visit(node)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        if node.name:
            self._bind(node.name, Opaque())

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        if node.rest:
            self._bind(node.rest, Opaque())
        self.generic_visit(node)

    def visit_Global(self, node: ast.Global) -> None:
        self._scope.top.update(node.names)

    def visit_Nonlocal(self, node: ast.Nonlocal) -> None:
        self._scope.outer.update(node.names)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._bind(node.name, Defined(node))
        self.visit_all(node.decorator_list)
        around = self._type_parameters(node)
        around.visit_all([*node.bases, *(k.value for k in node.keywords)])
        around._open(node).visit_all(node.body)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._function(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.visit_all([*_defaults(node.args)])
        inner = self._open(node)
        inner._parameters(node.args)
        inner.visit(node.body)

    def visit_ListComp(self, node: ast.ListComp) -> None:
        self._comprehension(node)

    def visit_SetComp(self, node: ast.SetComp) -> None:
        self._comprehension(node)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> None:
        self._comprehension(node)

    def visit_DictComp(self, node: ast.DictComp) -> None:
        self._comprehension(node)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._bind(node.name, Opaque())
        self.visit_all([*node.decorator_list, *_defaults(node.args)])
        inner = self._type_parameters(node)._open(node)
        inner._parameters(node.args)
        inner.visit_all(node.body)

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
    ) -> None:
        self.visit(node.generators[0].iter)
        inner = self._open(node)
        for number, generator in enumerate(node.generators):
            inner.visit(generator.target)
            if number:
                inner.visit(generator.iter)
            inner.visit_all(generator.ifs)
        parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        inner.visit_all(parts)

    def _parameters(self, arguments: ast.arguments) -> None:
        named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        for argument in [*named, arguments.vararg, arguments.kwarg]:
            if argument is not None:
                self._bind(argument.arg, Opaque())

    def _type_parameters(
        self, node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    ) -> _Binder:
        """The scope around one that has type parameters, from Python 3.12 on."""
        parameters: list[Any] = dict(ast.iter_fields(node)).get("type_params", [])
        if not parameters:
            return self
        around = self._open(parameters[0])
        for parameter in parameters:
            around._bind(parameter.name, Opaque())
        return around

    def _open(self, node: ast.AST) -> _Binder:
        scope = self._scopes[node] = Scope(node, self._scope)
        return _Binder(self._scopes, scope, self._later)

    def _bind_target(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self._bind(target.id, Assigned(value))
        else:
            self.visit(target)

    def _bind(self, name: str, bound: Bound, scope: Scope | None = None) -> None:
        scope = scope or self._scope
        if name in scope.outer:
            self._later.append((scope, name, bound))
            return
        home = scope.module if name in scope.top else scope
        home.bound.setdefault(name, []).append(bound)


def _defaults(arguments: ast.arguments) -> Iterator[ast.expr]:
    yield from arguments.defaults
    yield from (default for default in arguments.kw_defaults if default is not None)
