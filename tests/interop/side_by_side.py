# pyright: basic, reportMissingImports=false
"""The same calls on a pool of sglang's and on ours, and what each then holds.

A script takes a pool and returns what can be observed. Tensors are told as digests of their bytes
where the two ought to be equal, and as short lists where they are known to differ;
`differences/` says which differ, and by what clause.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import torch

from tests.interop.rounding import as_compiled

__all__ = ["Observe", "Scripts", "digest", "layer"]

Observe = Callable[[Any], object]
Make = Callable[..., Any]


class Scripts:
    """The scripts of one family: `theirs` and `ours` take the same keywords."""

    def __init__(self, theirs: Make, ours: Make, **keywords: object) -> None:
        self._makers = {"theirs": theirs, "ours": ours}
        self._keywords = keywords
        self._scripts: dict[str, tuple[dict[str, object], Observe]] = {}

    def on(self, name: str, **changes: object) -> Callable[[Observe], Observe]:
        """Register a script for pools of these keywords."""

        def add(script: Observe) -> Observe:
            self._scripts[name] = (changes, script)
            return script

        return add

    def observed(self) -> dict[str, object]:
        """Script -> what sglang's pool shows -> and ours; an exception is told by its name."""
        with as_compiled():
            return {
                name: {
                    who: _told(script, make, self._keywords | changes)
                    for who, make in self._makers.items()
                }
                for name, (changes, script) in self._scripts.items()
            }


def _told(script: Observe, make: Make, keywords: dict[str, object]) -> object:
    try:
        return script(make(**keywords))
    except Exception as error:
        return type(error).__name__


def layer(layer_id: int) -> Any:
    """An attention layer, as far as a pool looks."""
    return SimpleNamespace(layer_id=layer_id, k_scale=None, v_scale=None)


def digest(tensors: Iterable[torch.Tensor]) -> list[str]:
    """A digest of each tensor's bytes."""
    return [
        hashlib.sha256(t.contiguous().view(torch.uint8).numpy().tobytes()).hexdigest()[:16]
        for t in tensors
    ]
