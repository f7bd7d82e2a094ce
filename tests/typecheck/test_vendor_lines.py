"""Every leaf and platform of an adapter has its lines in `typecheck/vendors/`.

The checkers are strict on that folder (`test_typecheck.py`), so a line is a proof; this is about
the lines that nobody wrote. A stranger's package has checks of its own, see `tests/examples/`.
"""

from __future__ import annotations

import ast
import inspect
import pkgutil
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest

import kvproto.adapters
from kvproto.conformance.capabilities import POOL_CAPABILITIES
from kvproto.protocols import KVLeaf, Platform
from tests.typecheck.checking import REPOSITORY

VENDORS = sorted(
    name for _, name, is_package in pkgutil.iter_modules(kvproto.adapters.__path__) if is_package
)
NAMED_ELSEWHERE = {"DeclaresTraits", "DeclaresRegions"}
"""Data of every leaf of ours, whose types their own class annotates."""


def classes_of(vendor: str) -> set[type]:
    """The public classes of the adapter's modules, but for bases of others."""
    package = import_module(f"kvproto.adapters.{vendor}")
    modules = [
        import_module(module.name)
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    ]
    named = [vars(module)[name] for module in modules for name in vars(module).get("__all__", ())]
    classes = [each for each in named if isinstance(each, type)]
    own = {each for each in classes if each.__module__.startswith(package.__name__)}
    bases = {base for each in own for base in each.__mro__[1:]}
    return {each for each in own - bases if not inspect.isabstract(each)}


def has(cls: type, capability: Any) -> bool:
    """By declarations: `capability` is one of our protocols, data members or not."""
    return issubclass(cls, capability)


def lines() -> set[tuple[str, str]]:
    """Every `name: type[Protocol] = Class` of the folder: the protocol and the class."""
    found: set[tuple[str, str]] = set()
    for file in (REPOSITORY / "typecheck" / "vendors").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if (
                isinstance(node, ast.AnnAssign)
                and isinstance(node.annotation, ast.Subscript)
                and ast.unparse(node.annotation.value) == "type"
                and node.value is not None
            ):
                found.add((ast.unparse(node.annotation.slice), ast.unparse(node.value)))
    return found


def with_bases(found: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """And what a line about an extended capability says of those that it extends."""
    known = {capability.__name__: capability for capability in POOL_CAPABILITIES}
    return found | {
        (base.__name__, name)
        for capability, name in found
        if capability in known
        for base in known[capability].__mro__
    }


def test_the_adapters_are_found() -> None:
    assert {"npu", "musa", "rocm"} <= set(WITH_DEVICES)
    assert any(has(each, KVLeaf) for each in classes_of("npu"))


WITH_DEVICES = [v for v in VENDORS if find_spec(f"kvproto.adapters.{v}.platform")]
"""Without a platform are those of an engine, whose pools are seen through the contract."""


@pytest.mark.parametrize("vendor", WITH_DEVICES)
def test_a_platform_has_a_line(vendor: str) -> None:
    platforms = {each.__name__ for each in classes_of(vendor) if has(each, Platform)}
    assert platforms
    assert {("Platform", name) for name in platforms} <= lines()


@pytest.mark.parametrize("vendor", VENDORS)
def test_a_leaf_has_a_line_for_every_capability_it_has(vendor: str) -> None:
    leaves = {each for each in classes_of(vendor) if has(each, KVLeaf)}
    wanted = {
        (capability.__name__, leaf.__name__)
        for leaf in leaves
        for capability in POOL_CAPABILITIES
        if has(leaf, capability) and capability.__name__ not in NAMED_ELSEWHERE
    }
    assert wanted - with_bases(lines()) == set()
