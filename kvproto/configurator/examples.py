"""The configs of forty model families, to plan and to test with.

Each holds the cache-relevant fields of the family's configuration class in transformers 5.19.0,
with that class's default values; an interop test compares them with the classes themselves.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

__all__ = ["example_config", "example_names"]

_FOLDER = files("kvproto.configurator") / "configs"


def example_names() -> tuple[str, ...]:
    """The families, in alphabetical order."""
    names = (entry.name for entry in _FOLDER.iterdir())
    return tuple(sorted(name.removesuffix(".json") for name in names if name.endswith(".json")))


def example_config(name: str) -> dict[str, Any]:
    """One family's config, as `json.load` gives it.

    :raises KeyError: for a name that is none of `example_names()`.
    """
    if name not in example_names():
        raise KeyError(f"no example config '{name}'; there are {', '.join(example_names())}")
    config: dict[str, Any] = json.loads((_FOLDER / f"{name}.json").read_text())
    return config
