"""Addresses and lengths of what travels, for an engine's descriptor lists."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .manifest import PoolName
from .page_lists import PageLists, checked_pages
from .plan import Pieces, RegionPair, TransferPlan

__all__ = ["Descriptors", "descriptors"]

Int64s = NDArray[np.int64]


class Descriptors(NamedTuple):
    """`[n, 2]` int64 each: address and length in bytes. Row `i` of one goes with row `i`."""

    local: Int64s
    remote: Int64s


def descriptors(
    plan: TransferPlan,
    pages: PageLists,
    *,
    layer_id: int | None = None,
    pool: PoolName | None = None,
    with_reserved: bool = False,
) -> Descriptors:
    """What travels of these pages: region after region, layer after layer, page after page.

    `pages` has, by space, the local pages and the remote page of each, in pages of the plan
    (`TransferPlan.spaces`). Pages that follow each other at both ends are one descriptor. With
    `layer_id` it is one global layer of `pool`, the target's if none is named; with `pool` alone
    all layers of that pool.

    :raises ValueError: for a layer that does not travel; otherwise as `checked_pages`.
    :raises IndexError: for a page outside one of the regions.
    """
    checked = checked_pages(plan, pages, with_reserved=with_reserved)
    parts = [
        _of_pair(pair, bases, pieces, checked[pair.space])
        for pair, bases, pieces in _selected(plan, layer_id, pool)
        if pair.space in checked
    ]
    empty = np.empty((0, 2), np.int64)
    local, remote = ([part[end] for part in parts] for end in (0, 1))
    return Descriptors(np.concatenate([empty, *local]), np.concatenate([empty, *remote]))


def _selected(
    plan: TransferPlan, layer_id: int | None, pool: PoolName | None
) -> Iterator[tuple[RegionPair, tuple[Int64s, Int64s], Pieces]]:
    owner = "target" if pool is None and layer_id is not None else pool
    pairs = [pair for pair in plan.pairs if owner in (None, pair.pool)]
    if layer_id is not None and not any(layer_id in pair.layer_ids for pair in pairs):
        raise ValueError(f"layer_id {layer_id} of the {owner} pool does not travel")
    for pair in pairs:
        ends = [np.array(end.bases, np.int64) for end in (pair.local, pair.remote)]
        if layer_id is None:
            yield pair, (ends[0], ends[1]), pair.pieces
        elif layer_id in pair.layer_ids:
            at = pair.layer_ids.index(layer_id)
            one = slice(0, 1) if pair.layer_pieces else slice(at, at + 1)
            pieces = pair.layer_pieces[at] if pair.layer_pieces else pair.pieces
            yield pair, (ends[0][one], ends[1][one]), pieces


def _of_pair(
    pair: RegionPair, bases: tuple[Int64s, Int64s], pieces: Pieces, pages: tuple[Int64s, Int64s]
) -> tuple[Int64s, Int64s]:
    """Runs are the same in every layer: they are found once, and moved to each layer's base."""
    offsets, lengths = _runs(pair, pieces, pages)
    shape = (len(bases[0]), len(lengths), 2)
    made = np.empty(shape, np.int64), np.empty(shape, np.int64)
    for table, base, offset in zip(made, bases, offsets, strict=True):
        np.add(base[:, None], offset, out=table[:, :, 0])
        table[:, :, 1] = lengths
    return made[0].reshape(-1, 2), made[1].reshape(-1, 2)


def _runs(
    pair: RegionPair, pieces: Pieces, pages: tuple[Int64s, Int64s]
) -> tuple[tuple[Int64s, Int64s], Int64s]:
    """Offsets from the base at both ends, and lengths, of what lies together at both."""
    local, remote = (
        (numbers[:, None] * end.page_stride + np.array(starts, np.int64)).ravel()
        for numbers, end, starts in (
            (pages[0], pair.local, pieces.local),
            (pages[1], pair.remote, pieces.remote),
        )
    )
    nbytes = np.tile(np.array(pieces.nbytes, np.int64), len(pages[0]))
    begins = np.ones(len(nbytes), bool)
    begins[1:] = (local[1:] != local[:-1] + nbytes[:-1]) | (remote[1:] != remote[:-1] + nbytes[:-1])
    first = np.flatnonzero(begins)
    lengths = np.add.reduceat(nbytes, first) if len(first) else nbytes
    return (local[first], remote[first]), lengths
