"""sglang's own pools seen through the contract: what each is, and what it can."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from typing_extensions import is_protocol

from kvproto import protocols
from kvproto.protocols import (
    Capability,
    HybridComposite,
    PoolTraits,
    SWAComposite,
    adopt,
    supports,
)

from .declares import traits_of

__all__ = ["Seen", "adopt_pools", "see"]


@dataclass(frozen=True, slots=True)
class Seen:
    """A pool of sglang's, of a vendor's or of kvproto's, as a consumer of the contract has it."""

    traits: PoolTraits | None
    """What it is, declared or known of its class; None of a class that nobody knows."""
    capabilities: frozenset[str]
    """Names in `kvproto.protocols` of what it can."""
    leaves: tuple[tuple[str, Seen], ...]
    """Of a window pair and of a hybrid: what it is made of, by attribute."""


def see(pool: object, /) -> Seen:
    """Ask the pool, and what it is made of, everything that can be asked."""
    can = frozenset(p.__name__ for p in _capabilities() if supports(pool, p))
    return Seen(traits_of(pool), can, tuple((name, see(leaf)) for name, leaf in _leaves(pool)))


def adopt_pools(pool: object, /) -> tuple[type, ...]:
    """Have checks of the pool's class, and of its leaves' classes, settled on the class.

    sglang's pools assign most of their members in `__init__`: until then such a check looks into
    the instance each time, and `issubclass` says no. To be called on what the configurator built.

    :raises CapabilityError: when one of the classes was adopted through a pool that answers
        otherwise.
    """
    found = [pool, *(leaf for _, leaf in _leaves(pool))]
    return tuple(dict.fromkeys(type(adopt(each)) for each in found))


def _leaves(pool: object) -> Iterator[tuple[str, object]]:
    if supports(pool, SWAComposite):
        yield "full_kv_pool", pool.full_kv_pool
        yield "swa_kv_pool", pool.swa_kv_pool
    elif supports(pool, HybridComposite):
        yield "full_kv_pool", pool.full_kv_pool
        yield "mamba_pool", pool.mamba_pool


@cache
def _capabilities() -> tuple[type, ...]:
    exported = (value for _, value in sorted(vars(protocols).items()))
    return tuple(
        value
        for value in exported
        if isinstance(value, type) and Capability in value.__mro__[1:] and is_protocol(value)
    )
