"""Which capabilities a pool has, which it lacks, and which it only half offers."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Literal

from kvproto import protocols as p
from kvproto._bad_input import BadInput
from kvproto.protocols import explain, supports

from .asked_members import members, methods

__all__ = [
    "ALLOCATOR_CAPABILITIES",
    "POOL_CAPABILITIES",
    "CapabilityVerdict",
    "advertised_methods",
    "capabilities_for",
    "capability_named",
    "half_offered",
    "verdicts",
]

State = Literal["yes", "no", "half"]

POOL_CAPABILITIES: tuple[type, ...] = (
    p.KVPool,
    p.KVLeaf,
    p.MHARows,
    p.MLALatent,
    p.LatentRows,
    p.KeyOnly,
    p.ScaledWrite,
    p.LayerOverrideWrite,
    p.DCPMaskedWrite,
    p.PrefixValidCommit,
    p.BlockScaled,
    p.FP4Workspace,
    p.IndexerCapable,
    p.IndexKeyRows,
    p.ScaledIndexKeyRows,
    p.KPoolTail,
    p.SparseIndexed,
    p.QSAIndexed,
    p.DSV4Compressed,
    p.SWACapable,
    p.SWAComposite,
    p.RequestRingSWA,
    p.Composite,
    p.HybridComposite,
    p.FusedDraft,
    p.HiSparse,
    p.LayerSharded,
    p.PageSharded,
    p.PageEnvelope,
    p.PageEnvelopeView,
    p.Transferable,
    p.LayerIdReporting,
    p.StateTransferable,
    p.StateSliceable,
    p.StatePool,
    p.HostCopyable,
    p.HostMirrorable,
    p.Movable,
    p.SizeReporting,
    p.Resumable,
    p.PostCaptureBacked,
    p.DeclaresTraits,
    p.DeclaresRegions,
)
"""What a pool may be able to do, in the order reports show it."""

ALLOCATOR_CAPABILITIES: tuple[type, ...] = (
    p.SlotAllocator,
    p.PagedAllocator,
    p.SWAAllocator,
    p.VirtualIdAllocator,
    p.HiSparseAllocator,
    p.ShardedAllocator,
    p.StateSlotAllocator,
    p.RequestPool,
    p.StateRequestPool,
)
"""What may be able to do whoever lends slots or rows, in the order reports show it."""

_LENDS = ("alloc", "available_size")


@dataclass(frozen=True, slots=True)
class CapabilityVerdict:
    """`state` is what detection says; `reasons` is why not, a line per member."""

    name: str
    state: State
    reasons: tuple[str, ...]


def capability_named(name: str) -> type:
    """The protocol of that name.

    :raises BadInput: naming those there are.
    """
    known = {c.__name__: c for c in (*POOL_CAPABILITIES, *ALLOCATOR_CAPABILITIES)}
    if name not in known:
        raise BadInput(f"no capability '{name}'; there are {', '.join(known)}")
    return known[name]


def capabilities_for(subject: object) -> tuple[type, ...]:
    """Those a subject is judged against: an allocator's where it lends, else a pool's.

    What lends and has a pool's doors too is a pool, unless it lends rows of a request table.
    """
    if supports(subject, p.RequestPool):
        return ALLOCATOR_CAPABILITIES
    lends = all(hasattr(type(subject), door) for door in _LENDS)
    is_pool = any(hasattr(type(subject), door) for door in methods(p.KVPool))
    return ALLOCATOR_CAPABILITIES if lends and not is_pool else POOL_CAPABILITIES


def verdicts(pool: object) -> list[CapabilityVerdict]:
    """One verdict per capability."""
    half = half_offered(pool)
    found: list[CapabilityVerdict] = []
    for protocol in capabilities_for(pool):
        state: State = "yes" if supports(pool, protocol) else "half" if protocol in half else "no"
        reasons = () if state == "yes" else tuple(explain(pool, protocol))
        found.append(CapabilityVerdict(protocol.__name__, state, reasons))
    return found


def half_offered(pool: object) -> list[type]:
    """Capabilities the pool lacks although it has a method of theirs that nothing else explains.

    A method counts when the class defines it, not as None, and no capability that the pool has
    contains it. It is charged to the capability most of whose members are there, of those
    whose data the pool does not set to None, which declares them as not supported.
    """
    judged = capabilities_for(pool)
    lacking = [c for c in judged if not supports(pool, c) and not _opted_out(pool, c)]
    explained = {m for c in judged if supports(pool, c) for m in methods(c)}
    charged: set[type] = set()
    for method in sorted({m for c in lacking for m in methods(c)} - explained):
        if not callable(inspect.getattr_static(type(pool), method, None)):
            continue
        candidates = [c for c in lacking if method in methods(c)]
        charged.add(max(candidates, key=lambda c: _share_present(pool, c)))
    return [protocol for protocol in judged if protocol in charged]


def advertised_methods(pool: object) -> list[str]:
    """Methods of the capabilities the pool has, in alphabetical order."""
    return sorted({m for c in capabilities_for(pool) if supports(pool, c) for m in methods(c)})


def _opted_out(pool: object, protocol: type) -> bool:
    own: dict[str, object] = getattr(pool, "__dict__", {})
    absent = object()
    for member in members(protocol):
        value = own.get(member.name, inspect.getattr_static(type(pool), member.name, absent))
        if value is None and not member.nullable:
            return True
    return False


def _share_present(pool: object, protocol: type) -> float:
    names = [m.name for m in members(protocol)]
    own = getattr(pool, "__dict__", {})
    present = [n for n in names if n in own or inspect.getattr_static(type(pool), n, None)]
    return len(present) / len(names)
