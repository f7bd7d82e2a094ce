"""Pages of one end counted as the plan counts them: in the shorter pages of the two."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..manifests.manifest import IndexSpace
from ..planning.plan import TransferPlan

__all__ = ["in_pages_of_plan"]


def in_pages_of_plan(
    plan: TransferPlan, space: IndexSpace, pages: ArrayLike, tokens: int | None = None
) -> NDArray[np.int64]:
    """`[n]` pages of this side as `[m]` of the plan, those after the last of `tokens` left out.

    :raises ValueError: for a space that does not travel, or what is no row of page numbers.
    """
    if space not in plan.spaces:
        raise ValueError(f"pages of space '{space}': {', '.join(plan.spaces) or 'none'} travel")
    own = np.asarray(pages)
    if own.ndim != 1 or (own.size and own.dtype.kind not in "iu"):
        raise ValueError(f"{space}: {own.dtype} {own.shape} is no row of page numbers")
    sizes = plan.spaces[space]
    times = sizes.local // sizes.page_size
    if times == 1:
        return own.astype(np.int64, copy=False)
    cut = (own.astype(np.int64)[:, None] * times + np.arange(times)).ravel()
    after = 0 if tokens is None else -tokens % sizes.local // sizes.page_size
    return cut[: len(cut) - after]
