"""Pages of one end counted as the plan counts them: in the shorter pages of the two."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..manifests.manifest import IndexSpace
from ..planning.plan import TransferPlan

__all__ = ["in_pages_of_plan", "page_row"]


def page_row(space: IndexSpace, pages: ArrayLike) -> NDArray[np.int64]:
    """`[n]` page numbers, int64.

    :raises ValueError: for what is no row of page numbers.
    """
    own = np.asarray(pages)
    if own.ndim != 1 or (own.size and own.dtype.kind not in "iu"):
        raise ValueError(f"{space}: {own.dtype} {own.shape} is no row of page numbers")
    return own.astype(np.int64, copy=False)


def in_pages_of_plan(
    plan: TransferPlan, space: IndexSpace, pages: ArrayLike, tokens: int, first: int = 0
) -> NDArray[np.int64]:
    """`[n]` pages of this side as `[m]` of the plan: those with tokens `first .. tokens - 1`.

    The last page of this side has token `tokens - 1`, the first one token `first`.

    :raises ValueError: for a space that does not travel, or what is no row of page numbers.
    """
    if space not in plan.spaces:
        raise ValueError(f"pages of space '{space}': {', '.join(plan.spaces) or 'none'} travel")
    own, sizes = page_row(space, pages), plan.spaces[space]
    times = sizes.local // sizes.page_size
    if times == 1:
        return own
    cut = (own[:, None] * times + np.arange(times)).ravel()
    before = first % sizes.local // sizes.page_size
    after = -tokens % sizes.local // sizes.page_size
    return cut[before : len(cut) - after]
