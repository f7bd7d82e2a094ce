"""From the words of a command line to a class."""

from __future__ import annotations

import difflib
import importlib
import keyword
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager

from typing_extensions import is_protocol

from kvproto._bad_input import BadInput

__all__ = ["load_class"]


def load_class(target: str) -> type:
    """The class that `module:Class` names; the current directory counts as importable.

    :raises BadInput: where the module cannot be imported, lacks the class, or holds no class there.
    """
    module_name, _, path = target.partition(":")
    if "/" in module_name or module_name.endswith(".py"):
        as_module = module_name.removesuffix(".py").strip("./").replace("/", ".")
        raise BadInput(f"{module_name} is a path; name the module: {as_module}:{path or 'Class'}")
    if not path or not _is_dotted_name(module_name) or not _is_dotted_name(path):
        raise BadInput(f"{target!r} is not of the form module:Class, like acme.pool:AcmePool")
    found: object = _import(module_name)
    for name in path.split("."):
        found = _attribute(found, name)
    if not isinstance(found, type):
        raise BadInput(
            f"{target} is no class, but of type {type(found).__name__}; name the pool's class"
        )
    if is_protocol(found):
        raise BadInput(f"{target} is a protocol; name a class that should satisfy it")
    return found


def _import(module_name: str) -> object:
    try:
        with _current_directory_importable():
            return importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # a stranger's module may raise anything
        lines = str(error).splitlines() or ["no message"]
        raise BadInput(f"cannot import {module_name}: {type(error).__name__}: {lines[0]}") from None


def _attribute(owner: object, name: str) -> object:
    try:
        return getattr(owner, name)
    except AttributeError:
        close = difflib.get_close_matches(name, dir(owner), n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        place = getattr(owner, "__name__", repr(owner))
        raise BadInput(f"{place} has no {name}{hint}") from None


def _is_dotted_name(text: str) -> bool:
    return all(part.isidentifier() and not keyword.iskeyword(part) for part in text.split("."))


@contextmanager
def _current_directory_importable() -> Generator[None]:
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        yield
    finally:
        sys.path.remove(here)
