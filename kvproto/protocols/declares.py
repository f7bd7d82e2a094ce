"""The one question about values: does a pool declare what a consumer wants?"""

from __future__ import annotations

from typing import TypedDict, cast

from typing_extensions import Unpack

from ._ask import supports
from .traits import (
    TRAIT_DOMAINS,
    DeclaresTraits,
    Fp8Variant,
    IdSpace,
    IndexScheme,
    Kind,
    Layout,
    PoolTraits,
    QuantScheme,
    ReadDoor,
    Replication,
    Role,
    RowUnit,
    ScaleLayout,
    StateIndexSpace,
    SwaStorage,
    TransferLayout,
)

__all__ = ["WantedTraits", "declares", "traits_have"]


class WantedTraits(TypedDict, total=False):
    """The fields of `PoolTraits`, each with the value that will do, or several of them."""

    kind: Kind | tuple[Kind, ...]
    layout: Layout | tuple[Layout, ...]
    quant_scheme: QuantScheme | tuple[QuantScheme, ...]
    fp8_variant: Fp8Variant | tuple[Fp8Variant, ...]
    scale_layout: ScaleLayout | tuple[ScaleLayout, ...]
    replication: Replication | tuple[Replication, ...]
    id_space: IdSpace | tuple[IdSpace, ...]
    swa_storage: SwaStorage | tuple[SwaStorage, ...]
    index_scheme: IndexScheme | tuple[IndexScheme, ...]
    state_index_space: StateIndexSpace | tuple[StateIndexSpace, ...]
    transfer_layout: TransferLayout | tuple[TransferLayout, ...]
    read_door: ReadDoor | tuple[ReadDoor, ...]
    role: Role | tuple[Role, ...]
    rows_are: RowUnit | tuple[RowUnit, ...]


def declares(pool: object, /, **wanted: Unpack[WantedTraits]) -> bool:
    """Does the pool declare one of the values wanted, in every field? None declares nothing.

    :raises TypeError: for a field that `PoolTraits` has not.
    :raises ValueError: for a value outside a field's domain, and where no field is named.
    """
    return supports(pool, DeclaresTraits) and traits_have(pool.pool_traits, **wanted)


def traits_have(traits: PoolTraits, /, **wanted: Unpack[WantedTraits]) -> bool:
    """The same, of traits at hand."""
    if not wanted:
        raise ValueError("no field of PoolTraits is named")
    # Every field is looked at, so that a mistake in any of them is told.
    held = [_has(traits, field, values) for field, values in wanted.items()]
    return all(held)


def _has(traits: PoolTraits, field: str, values: object) -> bool:
    if field not in TRAIT_DOMAINS:
        raise TypeError(f"PoolTraits has no field {field!r}")
    listed = cast("tuple[object, ...]", values) if isinstance(values, tuple) else (values,)
    for value in listed:
        if value not in TRAIT_DOMAINS[field]:
            domain = ", ".join(TRAIT_DOMAINS[field])
            raise ValueError(f"PoolTraits.{field}={value!r}: must be one of {domain}")
    return getattr(traits, field) in listed
