"""Addresses of a part of a transfer of which some bytes go to staging memory of the receiver."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..planning.descriptors import Descriptors, descriptors
from ..planning.page_lists import PageArrays, counts_of
from ..planning.plan import TransferPlan
from ..planning.staging import staged_plan, staging_bytes_of
from .messages import Wanted
from .parts import Cut, blocks_of

__all__ = ["staged_blocks_of", "to_staging"]


def to_staging(plan: TransferPlan, pages: PageArrays, wanted: Wanted) -> TransferPlan:
    """The plan of what goes to the staging memory that the receiver named.

    :raises ValueError: where it named none and needs some.
    """
    counts = counts_of(pages)
    if staging_bytes_of(plan, counts) and not wanted.staging:
        names = ", ".join(sorted({pair.name for pair in plan.pairs if pair.is_converted}))
        raise ValueError(f"pages of {names} are converted on arrival, and no staging was named")
    return staged_plan(plan, counts, wanted.staging)


def staged_blocks_of(
    direct: TransferPlan, staged: TransferPlan, pages: PageArrays, part: Cut
) -> Descriptors:
    """The addresses of a cut, for both plans of its steps. `pages` are whole lists.

    :raises ValueError, IndexError: as `descriptors`.
    """
    found = list(_of_both(direct, staged, pages, part))
    local, remote = (np.concatenate([each[end].T for each in found], axis=1).T for end in range(2))
    return Descriptors(local, remote)


def _of_both(
    direct: TransferPlan, staged: TransferPlan, pages: PageArrays, part: Cut
) -> Iterator[Descriptors]:
    if _has(direct, part):
        yield blocks_of(direct, pages, part)
    if _has(staged, part):
        own, _ = pages[part.space]
        numbers = np.arange(part.page_begin, part.page_end)
        asked: PageArrays = {part.space: (own[part.page_begin : part.page_end], numbers)}
        yield descriptors(staged, asked, with_reserved=True)


def _has(plan: TransferPlan, part: Cut) -> bool:
    return any(pair.space == part.space for pair in plan.pairs)
