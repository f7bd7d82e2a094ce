"""Which rows of a shared workspace a batch takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

__all__ = ["Placed", "as_numbers", "batch_places"]


@dataclass(frozen=True, slots=True)
class Placed:
    """One request of a prefill batch: its row of the request table, and where its tokens go.

    `start` is the workspace row of its first token; `prefix` tokens are cached, `extend` follow.
    """

    row: int
    start: int
    prefix: int
    extend: int


def as_numbers(values: Sequence[int] | Tensor) -> list[int]:
    """Python integers of a list or of a tensor on the host."""
    return [int(each) for each in values]


def batch_places(
    rows: Sequence[int] | Tensor,
    prefixes: Sequence[int] | Tensor,
    extends: Sequence[int] | Tensor,
    page_size: int,
    held: int,
) -> list[Placed]:
    """Request after request from the second page on, each starting on a page.

    :raises ValueError: for a batch that takes more than the `held` rows of the workspace.
    """
    places: list[Placed] = []
    at = page_size
    for row, prefix, extend in zip(
        as_numbers(rows), as_numbers(prefixes), as_numbers(extends), strict=True
    ):
        places.append(Placed(row, at, prefix, extend))
        end = at + prefix + extend
        at = -(-end // page_size) * page_size
        if end > held:
            raise ValueError(
                f"the batch reaches row {end - 1} of a workspace of {held} rows; split the batch"
            )
    return places
