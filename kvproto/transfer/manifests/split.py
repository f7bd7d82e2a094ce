"""Recurrent state that ranks split: which steps of the split axis a rank has, and where."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from kvproto.protocols import StateSliceable, StateTransferable, supports

__all__ = ["Shard", "Split", "common_runs", "splits_of"]

Shard: TypeAlias = tuple[int, int]
"""A rank, and how many ranks there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """What of the split axis an item holds: in each of `outer` rows, these steps of the model's.

    `parts` are the first global step and one past the last, in the order in which they lie in a
    row: one where the axis is one block, else one of each block.

    :raises ValueError: for no row, or a part without a step.
    """

    outer: int
    parts: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        if self.outer < 1 or not self.parts or any(not 0 <= a < b for a, b in self.parts):
            raise ValueError(f"Split of {self.outer} rows, {self.parts}: no steps of an axis")

    @property
    def steps(self) -> int:
        """Steps of a row."""
        return sum(stop - first for first, stop in self.parts)

    def __str__(self) -> str:
        told = ", ".join(f"{first}..{stop - 1}" for first, stop in self.parts)
        return f"steps {told} of the model, in {self.outer} rows"


def common_runs(local: Split, remote: Split) -> Iterator[tuple[int, int, int]]:
    """Steps that both have: the first of each run by its place in either item, and their number."""
    for row in range(local.outer):
        here = row * local.steps
        for first, stop in local.parts:
            there = row * remote.steps
            for begin, end in remote.parts:
                low, high = max(first, begin), min(stop, end)
                if low < high:
                    yield here + low - first, there + low - begin, high - low
                there += end - begin
            here += stop - first


def splits_of(pool: object, shard: Shard | None) -> dict[int, Split]:
    """Base of a region -> its split, for those that ranks split; empty where no shard is told.

    :raises ValueError: for a rank that is none, and blocks that the ranks cannot split evenly.
    """
    if shard is None or not (supports(pool, StateSliceable) and supports(pool, StateTransferable)):
        return {}
    rank, ranks = shard
    if not 0 <= rank < ranks:
        raise ValueError(f"shard={shard}: a rank, counted from 0, and the number of ranks")
    entries = zip(
        pool.get_state_buf_infos()[0],
        pool.get_state_dim_per_tensor(),
        pool.get_state_slice_outer_counts(),
        pool.get_state_conv_shard_groups(),
        strict=True,
    )
    return {
        base: Split(outer=outer, parts=tuple(_parts(length, groups, rank, ranks)))
        for base, length, outer, groups in entries
        if length
    }


def _parts(
    length: int, groups: list[int] | None, rank: int, ranks: int
) -> Iterator[tuple[int, int]]:
    blocks = [length * ranks] if groups is None else groups
    if any(block % ranks for block in blocks) or sum(blocks) != length * ranks:
        raise ValueError(f"{ranks} ranks cannot each have {length} steps of blocks of {blocks}")
    begin = 0
    for block in blocks:
        each = block // ranks
        yield begin + rank * each, begin + (rank + 1) * each
        begin += block
