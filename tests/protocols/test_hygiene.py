"""Every protocol keeps the house's form: public, documented, read-only, exact signatures."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from inspect import Parameter
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import get_protocol_members

import kvproto.protocols as package
from kvproto.protocols import Capability

ROOT = Path(__file__).parents[2]
PUBLIC_MODULES = [
    importlib.import_module(f"{package.__name__}.{info.name}")
    for info in pkgutil.iter_modules(package.__path__)
    if not info.name.startswith("_")
]


def protocols() -> Iterator[type]:
    for module in PUBLIC_MODULES:
        for value in vars(module).values():
            if not isinstance(value, type) or value.__module__ != module.__name__:
                continue
            if vars(value).get("_is_protocol", False):
                yield value


PROTOCOLS = sorted(protocols(), key=lambda protocol: protocol.__name__)
OWN_MEMBERS = [
    pytest.param(member, id=f"{protocol.__name__}.{name}")
    for protocol in PROTOCOLS
    for name, member in sorted(vars(protocol).items())
    if name in get_protocol_members(protocol)
]
each_protocol = pytest.mark.parametrize(
    "protocol", PROTOCOLS, ids=[protocol.__name__ for protocol in PROTOCOLS]
)
each_member = pytest.mark.parametrize("member", OWN_MEMBERS)


def function_of(member: Any) -> Any:
    return member.fget if isinstance(member, property) else member


def test_there_are_protocols_and_members_to_look_at() -> None:
    assert len(PROTOCOLS) > 40
    assert len(OWN_MEMBERS) > 150


def test_all_names_each_thing_once_and_it_exists() -> None:
    assert len(package.__all__) == len(set(package.__all__))
    assert [name for name in package.__all__ if not hasattr(package, name)] == []


@each_protocol
def test_is_public(protocol: type) -> None:
    module = sys.modules[protocol.__module__]
    assert protocol.__name__ in module.__all__
    assert protocol.__name__ in package.__all__
    assert getattr(package, protocol.__name__) is protocol


@pytest.mark.parametrize("module", PUBLIC_MODULES, ids=lambda module: module.__name__)
def test_module_lists_what_it_makes_public(module: Any) -> None:
    assert inspect.getdoc(module)
    assert all(hasattr(module, name) for name in module.__all__)


@each_protocol
def test_is_a_capability_checked_at_run_time(protocol: type) -> None:
    assert issubclass(type(protocol), type(Capability))
    assert vars(protocol).get("_is_runtime_protocol") is True
    assert not isinstance(object(), protocol)


@each_protocol
def test_is_documented_as_a_question(protocol: type) -> None:
    first_line = (vars(protocol)["__doc__"] or "").splitlines()[0]
    assert first_line.endswith("?")


@each_protocol
def test_name_is_in_camel_case(protocol: type) -> None:
    assert re.fullmatch(r"[A-Z][A-Za-z0-9]+", protocol.__name__)


@each_protocol
def test_members_are_properties_and_methods(protocol: type) -> None:
    data = set(get_protocol_members(protocol)) & set(inspect.get_annotations(protocol))
    assert data == set(), "a plain attribute is writable, hence invariant: make it a property"


@each_member
def test_member_is_documented(member: object) -> None:
    assert (function_of(member).__doc__ or "").strip()


@each_member
def test_property_is_read_only(member: object) -> None:
    if isinstance(member, property):
        assert member.fset is None
        assert member.fdel is None


@each_member
def test_signature_is_exact_and_annotated(member: object) -> None:
    signature = inspect.signature(function_of(member))
    assert signature.return_annotation is not inspect.Signature.empty
    for parameter in list(signature.parameters.values())[1:]:
        assert parameter.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
        assert parameter.annotation is not Parameter.empty


def test_importing_the_protocols_imports_no_torch() -> None:
    code = "import kvproto.protocols, sys; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=60)
