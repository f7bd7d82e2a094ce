"""From a pool to the manifest that its peers are sent."""

from __future__ import annotations

import os
import platform
import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

from kvproto.protocols import DeclaresTraits, Transferable, require, supports
from kvproto.protocols.layout import FieldName

from .left_out import left_out_of
from .manifest import Conversion, IndexSpace, ManifestRegion, PoolManifest, PoolName, PoolPart
from .regions import regions_of
from .split import Shard, splits_of

__all__ = ["BY_HEAD", "Heads", "describe"]

Heads: TypeAlias = range | Mapping[IndexSpace, range] | None
"""Which of the model's heads a rank has: in all layers, or by space where window layers differ."""

BY_HEAD: tuple[FieldName, ...] = ("key", "value", "key_scale", "value_scale")
"""Fields whose head axis is split over tensor-parallel ranks; index rows are on every rank."""

_LOADED = secrets.token_hex(8)
"""With the number of the process, which a fork has of its own, no two processes have the same."""


def describe(
    pool: object,
    draft: object | None = None,
    *,
    owner: str | None = None,
    heads: Heads = None,
    draft_heads: Heads = None,
    shard: Shard | None = None,
    conversion: Conversion = "none",
) -> PoolManifest:
    """Every byte of a pool that may travel, and of the draft model's pool beside it.

    `owner` names the process to its peers; None means its host and number. `heads` are the global
    ids of the rank's heads, which a pool does not know: without them peers must have as many.
    `shard` is the rank and the number of ranks that split recurrent state, which travels whole
    without it. `conversion` says whether this side helps to convert pages of another layout.

    :raises CapabilityError: for a pool that exports no pages or does not say where its bytes are.
    :raises ValueError: for another number of heads than the rows have, state that these ranks
        cannot split, and a draft with pages of another size.
    """
    parts = [_part("target", pool, heads, shard)]
    if draft is not None:
        parts.append(_part("draft", draft, draft_heads, shard))
    owner = f"{platform.node()}/{os.getpid()}" if owner is None else owner
    process = f"{_LOADED}/{os.getpid()}"
    return PoolManifest(owner=owner, pools=tuple(parts), conversion=conversion, process=process)


def _part(name: PoolName, pool: object, heads: Heads, shard: Shard | None) -> PoolPart:
    exported = require(pool, Transferable, for_=f"describe() of the {name} pool")
    splits = splits_of(exported, shard)
    told = (_with_heads(each, heads) for each in regions_of(exported))
    return PoolPart(
        name=name,
        page_size=exported.page_size,
        traits=pool.pool_traits if supports(pool, DeclaresTraits) else None,
        regions=tuple(replace(each, split=splits.get(each.region.bases[0])) for each in told),
        left_out=left_out_of(exported),
    )


def _with_heads(each: ManifestRegion, heads: Heads) -> ManifestRegion:
    held = heads.get(each.space) if isinstance(heads, Mapping) else heads
    rows = [f for f in each.region.fields if f.name in BY_HEAD]
    sizes = {axis.size for f in rows for axis in f.axes if axis.name == "head"}
    if held is None or not sizes:
        return each
    if held.step != 1 or sizes != {len(held)}:
        raise ValueError(
            f"heads={held}: {each.name} rows of the {each.space} space have {sorted(sizes)[0]} "
            "heads; give the global ids of these, without a gap"
        )
    return replace(each, heads=(held.start, held.stop))
