"""A named request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Spec"]


@dataclass(frozen=True, slots=True)
class Spec:
    """What a factory is asked for, under the name that reports and `kvproto check --spec` use."""

    name: str
    request: Any
