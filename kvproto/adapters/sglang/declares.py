"""What a pool is, also where it is one of sglang's and declares nothing."""

from __future__ import annotations

from typing_extensions import Unpack

from kvproto.protocols import DeclaresTraits, PoolTraits, WantedTraits, supports, traits_have

from .traits import derive_traits

__all__ = ["declares", "traits_of"]


def traits_of(pool: object) -> PoolTraits | None:
    """What the pool declares; else what one of sglang's pools is; else None."""
    return pool.pool_traits if supports(pool, DeclaresTraits) else derive_traits(pool)


def declares(pool: object, /, **wanted: Unpack[WantedTraits]) -> bool:
    """As `kvproto.protocols.declares`, with `traits_of` for what the pool declares.

    :raises TypeError, ValueError: as there.
    """
    traits = traits_of(pool)
    return traits is not None and traits_have(traits, **wanted)
