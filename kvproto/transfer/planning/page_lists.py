"""Which pages travel, looked at before an address is made of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..manifests.manifest import IndexSpace
from .plan import TransferPlan

__all__ = ["PageArrays", "PageLists", "checked_pages", "counts_of"]

PageLists: TypeAlias = Mapping[IndexSpace, tuple[ArrayLike, ArrayLike]]
"""By space: the pages of the local side, and as many of the remote side. What is left out stays."""

PageArrays: TypeAlias = dict[IndexSpace, tuple[NDArray[np.int64], NDArray[np.int64]]]


def checked_pages(plan: TransferPlan, pages: PageLists, *, with_reserved: bool) -> PageArrays:
    """The lists as int64 arrays, one pair for each space.

    :raises ValueError: for a space that the plan has not, lists of two lengths, what is no list of
        integers, a destination named twice, one that is a source too where both sides are the same
        bytes, and the reserved page unless `with_reserved`.
    :raises IndexError: for a page outside one of the regions.
    """
    checked: PageArrays = {}
    for space, (local, remote) in pages.items():
        if space not in plan.spaces:
            held = ", ".join(plan.spaces) or "none"
            raise ValueError(f"pages of space '{space}': the plan has {held}")
        ends = _integers(space, "local", local), _integers(space, "remote", remote)
        if len(ends[0]) != len(ends[1]):
            raise ValueError(f"{space}: {len(ends[0])} local pages for {len(ends[1])} remote ones")
        _check_bounds(plan, space, ends, with_reserved=with_reserved)
        _check_distinct(space, ends[1] if plan.direction == "write" else ends[0])
        if _share_bytes(plan, space):
            _check_apart(space, *ends)
        checked[space] = ends
    return checked


def counts_of(pages: PageArrays) -> dict[IndexSpace, int]:
    """How many pages of each space travel."""
    return {space: len(own) for space, (own, _) in pages.items()}


def _integers(space: IndexSpace, end: str, given: ArrayLike) -> NDArray[np.int64]:
    pages = np.asarray(given)
    if pages.ndim != 1 or (pages.size and pages.dtype.kind not in "iu"):
        raise ValueError(
            f"{space}: {end} pages are {pages.dtype} {pages.shape}, must be one row of integers"
        )
    return pages.astype(np.int64, copy=False)


def _check_bounds(
    plan: TransferPlan,
    space: IndexSpace,
    ends: tuple[NDArray[np.int64], NDArray[np.int64]],
    *,
    with_reserved: bool,
) -> None:
    unit = plan.spaces[space].page_size
    tokens = (plan.spaces[space].local, plan.spaces[space].remote)
    for end, pages, own in zip(("local", "remote"), ends, tokens, strict=True):
        if not pages.size:
            continue
        first, last = int(pages.min()), int(pages.max())
        held = _capacity(plan, space, end)
        if first < 0 or last >= held:
            wrong = first if first < 0 else last
            raise IndexError(f"{space}: {end} page {wrong} is outside 0..{held - 1}")
        if first < own // unit and not with_reserved:
            raise ValueError(f"{space}: {end} page {first} is reserved; ask with_reserved=True")


def _capacity(plan: TransferPlan, space: IndexSpace, end: str) -> int:
    pairs = [pair for pair in plan.pairs if pair.space == space]
    return min((p.local if end == "local" else p.remote).page_count for p in pairs)


def _check_distinct(space: IndexSpace, pages: NDArray[np.int64]) -> None:
    ordered = np.sort(pages)
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if twice.size:
        raise ValueError(f"{space}: page {int(twice[0])} is a destination twice")


def _share_bytes(plan: TransferPlan, space: IndexSpace) -> bool:
    """Whether both sides are one: addresses of two processes may be equal and are not the same."""
    if plan.local.process != plan.remote.process:
        return False
    return plan.local.bases(space) == plan.remote.bases(space)


def _check_apart(space: IndexSpace, sources: NDArray[np.int64], targets: NDArray[np.int64]) -> None:
    both = np.intersect1d(sources, targets)
    if both.size:
        raise ValueError(f"{space}: page {int(both[0])} is a source and a destination")
