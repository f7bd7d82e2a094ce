"""Addresses and lengths of what travels, for an engine's descriptor lists."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..manifests.manifest import PoolName
from .page_lists import PageArrays, PageLists, checked_pages, counts_of
from .plan import Pieces, RegionPair, TransferPlan
from .staging import staged_pairs

__all__ = ["Descriptors", "descriptors"]

Int64s = NDArray[np.int64]


class Runs(NamedTuple):
    """Offsets from a layer's base at both ends, and lengths, in bytes; `[n]` each."""

    local: Int64s
    remote: Int64s
    nbytes: Int64s


class Descriptors(NamedTuple):
    """`[n, 2]` int64 each: address and length in bytes. Row `i` of one goes with row `i`.

    Each column is one run of memory (Fortran order).
    """

    local: Int64s
    remote: Int64s


def descriptors(
    plan: TransferPlan,
    pages: PageLists,
    *,
    layer_id: int | None = None,
    pool: PoolName | None = None,
    with_reserved: bool = False,
    staging: int | None = None,
) -> Descriptors:
    """What travels of these pages: region after region, layer after layer, page after page.

    `pages` has, by space, the local pages and the remote page of each, in pages of the plan
    (`TransferPlan.spaces`). Pages that follow each other at both ends are one descriptor. With
    `layer_id` it is one global layer of `pool`, the target's if none is named; with `pool` alone
    all layers of that pool. `staging` is the address of the receiver's staging memory, where some
    regions are converted (`RegionPair.is_converted`): `staging_bytes` of these pages.

    :raises ValueError: for a layer that does not travel, and pages to convert without `staging`;
        otherwise as `checked_pages`.
    :raises IndexError: for a page outside one of the regions.
    """
    checked = checked_pages(plan, pages, with_reserved=with_reserved)
    pairs = _staged(plan, checked, staging)
    parts = [
        (bases, _runs(pair, pieces, _numbers(plan, pair, checked[pair.space])))
        for pair, bases, pieces in _selected(pairs, layer_id, pool)
        if pair.space in checked
    ]
    total = sum(len(bases[0]) * len(runs.nbytes) for bases, runs in parts)
    made = np.empty((2, total), np.int64), np.empty((2, total), np.int64)
    _fill(made, parts)
    return Descriptors(made[0].T, made[1].T)


def _fill(made: tuple[Int64s, Int64s], parts: Sequence[tuple[tuple[Int64s, Int64s], Runs]]) -> None:
    """Runs are the same in every layer: they are found once, and moved to each layer's base."""
    begin = 0
    for bases, runs in parts:
        shape = len(bases[0]), len(runs.nbytes)
        end = begin + shape[0] * shape[1]
        for table, base, offsets in zip(made, bases, (runs.local, runs.remote), strict=True):
            np.add(base[:, None], offsets, out=table[0, begin:end].reshape(shape))
            table[1, begin:end].reshape(shape)[:] = runs.nbytes
        begin = end


def _staged(plan: TransferPlan, checked: PageArrays, staging: int | None) -> Sequence[RegionPair]:
    """The pairs, those to convert with the receiver's end in staging memory."""
    asked = [pair for pair in plan.pairs if pair.is_converted and pair.space in checked]
    if not asked:
        return plan.pairs
    if staging is None:
        names = ", ".join(sorted({pair.name for pair in asked}))
        raise ValueError(f"pages of {names} are converted on arrival: give staging=")
    staged = staged_pairs(plan, counts_of(checked), staging)
    return [next(staged) if pair.is_converted else pair for pair in plan.pairs]


def _numbers(
    plan: TransferPlan, pair: RegionPair, pages: tuple[Int64s, Int64s]
) -> tuple[Int64s, Int64s]:
    """The pages at both ends; in staging memory they are in the order of the list."""
    if not pair.is_converted:
        return pages
    order = np.arange(len(pages[0]))
    return (pages[0], order) if plan.direction == "write" else (order, pages[1])


def _selected(
    every: Sequence[RegionPair], layer_id: int | None, pool: PoolName | None
) -> Iterator[tuple[RegionPair, tuple[Int64s, Int64s], Pieces]]:
    owner = "target" if pool is None and layer_id is not None else pool
    pairs = [pair for pair in every if owner in (None, pair.pool)]
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


def _runs(pair: RegionPair, pieces: Pieces, pages: tuple[Int64s, Int64s]) -> Runs:
    """What lies together at both ends, of these pages."""
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
    if len(first) < len(nbytes):
        nbytes = np.add.reduceat(nbytes, first)
    return Runs(local[first], remote[first], nbytes)
