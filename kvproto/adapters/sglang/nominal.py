"""Capabilities, and `declares`, for files whose branches read more than a capability has.

Here they are the capabilities. To a type checker, by the stub beside this file, they are sglang's
own classes: it says of a rewritten branch what it said before, that the pool has the members of the
class. A pool of another's has those that the capability promises, of `kvproto.protocols`.
"""

from __future__ import annotations

from kvproto.protocols import (
    CompressStates,
    DSV4Compressed,
    FusedDraft,
    HybridComposite,
    IndexerCapable,
    KPoolTail,
    MHARows,
    MLALatent,
    PageSharded,
    QSAIndexed,
    SparseIndexed,
    StateRequestPool,
    SWAAllocator,
    SWACapable,
    SWAComposite,
    VirtualIdAllocator,
)

from .capabilities import SharedHostArena
from .declares import declares

__all__ = [
    "CompressStates",
    "DSV4Compressed",
    "FusedDraft",
    "HybridComposite",
    "IndexerCapable",
    "KPoolTail",
    "MHARows",
    "MLALatent",
    "PageSharded",
    "QSAIndexed",
    "SWAAllocator",
    "SWACapable",
    "SWAComposite",
    "SharedHostArena",
    "SparseIndexed",
    "StateRequestPool",
    "VirtualIdAllocator",
    "declares",
]
