"""Registers the operators with torch, each under the vendor's schema."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import library

__all__ = ["operators", "schemas"]

_LIBRARIES: list[Any] = []  # what they registered is gone when they are


def schemas() -> dict[str, tuple[str, str]]:
    """Namespace and schema of each operator, by name."""
    lines = (Path(__file__).parent / "schemas.txt").read_text().splitlines()
    qualified = [line.split("::", 1) for line in lines if not line.startswith("#")]
    return {schema.partition("(")[0]: (space, schema) for space, schema in qualified}


def operators(**implementations: Callable[..., Any]) -> dict[str, Any]:
    """Those of `torch.ops`, by name; what `schemas.txt` has and nobody implements is an error."""
    registered: dict[str, Any] = {}
    make: Any = library.Library
    for name, (space, schema) in schemas().items():
        fragment: Any = make(space, "FRAGMENT")
        fragment.define(schema)
        fragment.impl(name, implementations[name], "PrivateUse1")
        _LIBRARIES.append(fragment)
        registered[name] = getattr(getattr(torch.ops, space), name)
    return registered
