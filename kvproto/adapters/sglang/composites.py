"""kvproto's composites in place of sglang's, over the leaves that sglang built."""

from __future__ import annotations

from typing import Any

from kvproto.debug import maybe_validate
from kvproto.protocols import PoolTraits
from kvproto.reference import hybrid_pool, swa_pool

from .traits import derive_traits

__all__ = ["over_same_leaves"]


def over_same_leaves(pool: Any) -> Any:
    """A window pair or a hybrid of `kvproto.reference`, with the leaves and layers of sglang's.

    Any other pool is returned as it is: leaves, composites over a shared buffer, those of others.
    """
    match derive_traits(pool):
        case PoolTraits(kind="swa", id_space="physical"):
            full, window = _by_side(pool.layers_mapping)
            made: Any = swa_pool(
                full_kv_pool=pool.full_kv_pool,
                swa_kv_pool=pool.swa_kv_pool,
                full_attention_layer_ids=full,
                swa_attention_layer_ids=window,
            )
        case PoolTraits(kind="hybrid_linear", id_space="physical"):
            made = hybrid_pool(
                full_kv_pool=pool.full_kv_pool,
                mamba_pool=pool.mamba_pool,
                full_attention_layer_ids=tuple(pool.full_attention_layer_id_mapping),
            )
        case _:
            return pool
    return maybe_validate(made)


def _by_side(places: dict[int, tuple[int, bool]]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The global ids of the full layers and of the window layers, as their leaves have them."""
    ids: tuple[dict[int, int], dict[int, int]] = ({}, {})
    for layer_id, (index, windowed) in places.items():
        ids[windowed][index] = layer_id
    full, window = ids
    return tuple(full[i] for i in sorted(full)), tuple(window[i] for i in sorted(window))
