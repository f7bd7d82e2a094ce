"""A capability bound once is an optional, and `is not None` opens it."""

from __future__ import annotations

from typing import Protocol, assert_type

from torch import Tensor

from kvproto.protocols import KVLeaf, SWACapable


class Pools(Protocol):
    leaf: KVLeaf
    swa: SWACapable | None


def is_not_none(pools: Pools, loc: Tensor) -> None:
    assert_type(pools.swa, SWACapable | None)
    if pools.swa is not None:
        assert_type(pools.swa, SWACapable)
        assert_type(pools.swa.translate_loc_from_full_to_swa(loc), Tensor)


def members(pools: Pools) -> None:
    assert_type(pools.leaf.get_kv_buffer(0), tuple[Tensor, Tensor])
    assert_type(pools.leaf.page_size, int)


def both(pool: KVLeaf, loc: Tensor) -> Tensor:
    """Narrowing keeps what was known: a leaf that is also window-capable has both doors."""
    if isinstance(pool, SWACapable):
        assert_type(pool.get_key_buffer(0), Tensor)
        assert_type(pool.translate_loc_from_full_to_swa(loc), Tensor)
    return loc
