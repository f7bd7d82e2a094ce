"""Names resolve as LibCST resolves them: an oracle that nobody here wrote."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, cast

import libcst as cst
import pytest
from libcst import metadata

from kvproto.gates import Profile
from kvproto.gates.class_values import ClassValues
from kvproto.gates.scopes import Scope, scopes_of

SOURCES = [
    "from engine.pools import Pair\ndef f(a):\n    return Pair",
    "from engine.pools import Pair as P\nx = [P for y in P]",
    "import engine.pools\nengine.pools.Pair\nengine.pools.Heads.State",
    "import engine.pools as ep\nclass C:\n    ep = 1\n    def f(self): return ep.Pair",
    "def f():\n    from engine import pools\n    def g(): return pools.Pair\n    return g",
    "def f():\n    from engine.pools import Pair\ndef g(): return Pair",
    "from engine.pools import Pair\ndef f(Pair): return Pair",
    "from engine.pools import Pair\nf = lambda Pair: Pair\ng = lambda x: Pair",
    "from engine.pools import Pair\ndef f():\n    for Pair in z: Pair",
    "from other import Pair\nPair",
    "from .pools import Pair\nPair",
    "from ..engine import pools\npools.Pair",
    "class Pair: ...\nPair\nclass Outer:\n    class Heads: ...\n    Heads",
    "if x:\n    from engine.pools import Pair\nelse:\n    Pair = None\nPair",
    "try:\n    from engine.pools import Pair\nexcept ImportError:\n    Pair = None\nPair",
    "def f():\n    global Pair\n    from engine.pools import Pair\ndef g(): return Pair",
    "class C:\n    def f(self):\n        global Pair\n        from engine.pools import Pair\nPair",
    "from engine.pools import Pair\nclass C:\n    x: Pair\n    def Heads(self): return Heads",
]


SHADOWED = "from engine.pools import Pair\n[Pair for Pair in z]"
"""LibCST takes the loop's own variable for the class; Python does not."""


def theirs(source: str, profile: Profile) -> list[tuple[int, int, str | None]]:
    """The pool class that LibCST takes each name and dotted name for, by position."""
    wrapper = metadata.MetadataWrapper(cst.parse_module(source))
    names = wrapper.resolve(metadata.QualifiedNameProvider)
    places = wrapper.resolve(metadata.PositionProvider)
    found: list[tuple[int, int, str | None]] = []
    for node, meant in names.items():
        if isinstance(node, cst.Name | cst.Attribute):
            told = {_known(name.name, name.source, profile) for name in _all(meant)} - {None}
            at = places[node].start
            found.append((at.line, at.column, told.pop() if told else None))
    return found


def _all(meant: Any) -> set[metadata.QualifiedName]:
    # LibCST works some out only when they are asked for.
    return cast("set[metadata.QualifiedName]", meant() if callable(meant) else meant)


def _known(name: str, source: metadata.QualifiedNameSource, profile: Profile) -> str | None:
    last = name.rpartition(".")[2]
    imported = source is metadata.QualifiedNameSource.IMPORT and name.startswith(("engine.", "."))
    defined = source is metadata.QualifiedNameSource.LOCAL and "<locals>" not in name
    return last if last in profile.classes and (imported or defined) else None


def ours(source: str, profile: Profile) -> Iterator[tuple[int, int, str | None]]:
    """The same, of what is read."""
    module = ast.parse(source)
    scopes, values = scopes_of(module), ClassValues(profile)
    yield from _below(module, scopes[module], scopes, values)


def _below(
    node: ast.AST, scope: Scope, scopes: dict[ast.AST, Scope], values: ClassValues
) -> Iterator[tuple[int, int, str | None]]:
    scope = scopes.get(node, scope)
    if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
        yield node.lineno, node.col_offset, values.named(node, scope)
    for child in ast.iter_child_nodes(node):
        yield from _below(child, scope, scopes, values)


@pytest.mark.parametrize("source", SOURCES)
def test_a_name_is_the_class_that_libcst_takes_it_for(source: str, engine: Profile) -> None:
    read = list(ours(source, engine))
    known = {(line, column, name) for line, column, name in theirs(source, engine) if name}
    assert read
    assert {place for place in read if place[2]} == {p for p in known if p[:2] in _at(read)}


def _at(places: list[tuple[int, int, str | None]]) -> set[tuple[int, int]]:
    return {(line, column) for line, column, _ in places}


def test_a_loop_variable_of_a_comprehension_is_no_class(engine: Profile) -> None:
    assert not any(name for _, _, name in ours(SHADOWED, engine))
