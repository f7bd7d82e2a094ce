"""A transfer cut into writes, so that none is long and none begins before its layers are ready."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ..manifests.manifest import IndexSpace
from ..planning.descriptors import Descriptors, descriptors
from ..planning.page_lists import PageArrays
from ..planning.plan import RegionPair, TransferPlan
from .steps import Step, Steps

__all__ = ["Cut", "blocks_of", "cut", "of_steps"]


class Cut(NamedTuple):
    """Steps `step_begin .. step_end - 1` of pages `page_begin .. page_end - 1` of a list."""

    space: IndexSpace
    step_begin: int
    step_end: int
    page_begin: int
    page_end: int
    nbytes: int


def cut(
    steps: Steps, begin: int, end: int, counts: Mapping[IndexSpace, int], most: int
) -> Iterator[Cut]:
    """Steps `begin .. end - 1` of so many pages of each space, at most `most` bytes at a time.

    One page of one step is never cut. Layers go one after the other with all of their pages, which
    may lie together; where pages hold all layers, and all are asked for, page after page.
    """
    for space, count in counts.items():
        sizes = steps.nbytes[space][begin:end]
        at_once = space in steps.together and (begin, end) == (0, len(steps))
        for first, last in [(0, len(sizes))] if at_once else _grouped(sizes, count, most):
            if count and (per_page := sum(sizes[first:last])):
                yield from _paged(space, begin + first, begin + last, per_page, count, most)


def _grouped(sizes: Sequence[int], count: int, most: int) -> Iterator[tuple[int, int]]:
    """Runs of steps whose pages are at most `most` bytes together, or one step."""
    first, held = 0, 0
    for at, size in enumerate(sizes):
        if held and held + size * count > most:
            yield first, at
            first, held = at, 0
        held += size * count
    yield first, len(sizes)


def _paged(
    space: IndexSpace, first: int, last: int, per_page: int, count: int, most: int
) -> Iterator[Cut]:
    at_once = max(1, most // per_page)
    for page in range(0, count, at_once):
        end = min(page + at_once, count)
        yield Cut(space, first, last, page, end, (end - page) * per_page)


def of_steps(plan: TransferPlan, steps: Steps, begin: int, end: int) -> TransferPlan:
    """The plan with steps `begin .. end - 1` alone: what of a page goes in one part."""
    if (begin, end) == (0, len(steps)):
        return plan
    chosen = set(steps.order[begin:end])
    pairs = [each for pair in plan.pairs for each in _of_layers(pair, chosen)]
    return replace(plan, pairs=tuple(pairs))


def _of_layers(pair: RegionPair, chosen: set[Step]) -> Iterator[RegionPair]:
    """The pair with these layers alone; where a page holds all layers, a pair for each."""
    at = [i for i, layer_id in enumerate(pair.layer_ids) if Step(pair.pool, layer_id) in chosen]
    if not at:
        return
    if pair.layer_pieces:
        for i in at:
            one = pair.layer_pieces[i]
            yield replace(pair, layer_ids=(pair.layer_ids[i],), pieces=one, layer_pieces=())
    else:
        local, remote = (
            replace(side, bases=tuple(side.bases[i] for i in at))
            for side in (pair.local, pair.remote)
        )
        ids = tuple(pair.layer_ids[i] for i in at)
        yield replace(pair, layer_ids=ids, local=local, remote=remote)


def blocks_of(plan: TransferPlan, pages: PageArrays, part: Cut) -> Descriptors:
    """The addresses of a cut, for the plan of its steps. `pages` are whole lists.

    :raises ValueError, IndexError: as `descriptors`.
    """
    local, remote = (each[part.page_begin : part.page_end] for each in pages[part.space])
    asked: PageArrays = {part.space: (local, remote)}
    return descriptors(plan, asked)
