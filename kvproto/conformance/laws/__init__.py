"""The laws; importing this package registers them all."""

from __future__ import annotations

from . import declaration, fp8, host_copy, leaf, move, options, size, sync_free, traits, transfer

__all__ = [
    "declaration",
    "fp8",
    "host_copy",
    "leaf",
    "move",
    "options",
    "size",
    "sync_free",
    "traits",
    "transfer",
]
