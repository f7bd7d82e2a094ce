"""A member set to None says "not supported", at run time and, `| None`, to a reader."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from torch import Tensor

from kvproto.protocols import Movable, explain, supports


class CannotMove:
    move_kv_cache: ClassVar[Callable[[Tensor, Tensor], None] | None] = None


def run() -> None:
    assert not supports(CannotMove(), Movable)
    assert "not supported" in explain(CannotMove(), Movable)[0]
