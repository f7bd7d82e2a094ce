"""Engines by name."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from .engine import TransferEngine

__all__ = ["ENGINES", "EngineKind", "open_engine"]

EngineKind: TypeAlias = Literal["nixl", "mooncake", "local"]

ENGINES: tuple[EngineKind, ...] = get_args(EngineKind)


def open_engine(kind: EngineKind) -> TransferEngine:
    """An engine for host memory. What it needs is imported now.

    :raises EngineUnavailable: where it is not installed, saying how to install it.
    :raises ValueError: for another name.
    """
    if kind not in ENGINES:  # of a caller that no checker saw
        raise ValueError(f"engine {kind!r}: there are {', '.join(ENGINES)}")
    match kind:
        case "nixl":
            from .nixl_engine import NixlEngine

            return NixlEngine()
        case "local":
            from .local_engine import LocalEngine

            return LocalEngine()
        case "mooncake":
            from .mooncake_engine import MooncakeEngine

            return MooncakeEngine()
