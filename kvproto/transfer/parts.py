"""A transfer cut into writes, so that none is long and none begins before its layers are ready."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from .descriptors import Descriptors, descriptors
from .manifest import IndexSpace
from .page_lists import PageArrays
from .plan import TransferPlan
from .steps import Steps

__all__ = ["Cut", "blocks_of", "cut"]


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


def blocks_of(plan: TransferPlan, steps: Steps, pages: PageArrays, part: Cut) -> Descriptors:
    """The addresses of a cut. `pages` are whole lists, in pages of the plan.

    :raises ValueError, IndexError: as `descriptors`.
    """
    local, remote = (each[part.page_begin : part.page_end] for each in pages[part.space])
    asked: PageArrays = {part.space: (local, remote)}
    if (part.step_begin, part.step_end) == (0, len(steps)):
        return descriptors(plan, asked)
    made = [
        descriptors(plan, asked, layer_id=step.layer_id, pool=step.pool)
        for at, step in enumerate(steps.order[part.step_begin : part.step_end], part.step_begin)
        if steps.nbytes[part.space][at]
    ]
    return Descriptors(*(np.concatenate(end) for end in zip(*made, strict=True)))
