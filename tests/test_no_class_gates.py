"""Nothing here asks for a pool's concrete class, but where sglang's own pools are told apart."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
POOLS = ("kvproto/reference", "kvproto/adapters", "examples/acme/src")
"""Where classes of leaves, composites, allocators and request pools are."""

DOORS = {"move_kv_cache", "set_kv_buffer", "get_key_buffer", "alloc", "free", "available_size"}
"""A class that defines or inherits one here is a pool, or part of one."""

FILES = [
    file
    for folder in ("kvproto", "examples", "benchmarks")
    for file in sorted((ROOT / folder).rglob("*.py"))
    if "adapters/sglang" not in file.as_posix()
]


def concrete() -> set[str]:
    """Names of the classes in `POOLS` that have a door, by themselves or by a base."""
    classes: dict[str, tuple[set[str], set[str]]] = {}
    for folder in POOLS:
        for file in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.ClassDef):
                    members = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
                    bases = {ast.unparse(base).partition("[")[0] for base in node.bases}
                    classes[node.name] = members, bases
    found = {name for name, (members, _) in classes.items() if members & DOORS}
    while more := {n for n, (_, bases) in classes.items() if bases & found} - found:
        found |= more
    return found


NAMESAKES = {"HeadGeometry"}
"""A value of plans, and in another package a part of composites."""

CONCRETE = concrete() - NAMESAKES


def gates_in(source: str) -> Iterator[tuple[int, str]]:
    """Line and class of each `isinstance`, `issubclass`, `type(x) is` and class pattern."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Name("isinstance" | "issubclass"), args=[_, asked]):
                asked_for = asked
            case ast.Compare(left=ast.Call(func=ast.Name("type")), comparators=[asked]):
                asked_for = asked
            case ast.MatchClass(cls=asked):
                asked_for = asked
            case _:
                continue
        names = {n.id for n in ast.walk(asked_for) if isinstance(n, ast.Name)}
        names |= {n.attr for n in ast.walk(asked_for) if isinstance(n, ast.Attribute)}
        yield from ((node.lineno, name) for name in sorted(names & CONCRETE))


def test_pools_are_known_by_name() -> None:
    assert {"MHALeaf", "SWAPool", "TokenAllocator", "NPUMLALeaf", "AcmeLeaf"} <= CONCRETE


@pytest.mark.parametrize(
    "gate",
    [
        "isinstance(pool, MHALeaf)",
        "isinstance(pool, (str, reference.MHALeaf))",
        "isinstance(pool, MHALeaf | MLALeaf)",
        "issubclass(kind, MHALeaf)",
        "type(pool) is MHALeaf",
        "match pool:\n    case MHALeaf(): pass",
    ],
)
def test_gates_are_seen(gate: str) -> None:
    assert "MHALeaf" in {name for _, name in gates_in(gate)}


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.relative_to(ROOT).as_posix())
def test_no_concrete_class_is_asked_for(file: Path) -> None:
    assert list(gates_in(file.read_text())) == []
