"""Which layers of a stage keep index rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvproto.protocols.head_requests import check_sparse_layers

__all__ = ["SparseLayers"]


@dataclass(frozen=True, slots=True)
class SparseLayers:
    """The stage's layers, and of those the sparse ones without index values and with.

    `values_in_model`: has any layer of the model index values, here or on another stage?
    """

    stage: range
    keys_only: tuple[int, ...]
    keys_and_values: tuple[int, ...]
    values_in_model: bool

    @classmethod
    def of(
        cls,
        dense: Sequence[int],
        sparse: Sequence[int],
        without_values: Sequence[int],
        start_layer: int | None,
        end_layer: int | None,
    ) -> SparseLayers:
        """From a constructor's keywords; the stage is just around the lists by default.

        :raises ValueError: as `check_sparse_layers`, and for a stage that ends before it starts.
        """
        listed = (*dense, *sparse)
        start = min(listed, default=0) if start_layer is None else start_layer
        end = max(listed, default=-1) + 1 if end_layer is None else end_layer
        if not 0 <= start <= end:
            raise ValueError(f"start_layer={start}, end_layer={end} (exclusive): no such stage")
        stage = range(start, end)
        check_sparse_layers(dense, sparse, without_values, stage)
        return cls(
            stage,
            tuple(i for i in stage if i in sparse and i in without_values),
            tuple(i for i in stage if i in sparse and i not in without_values),
            not set(sparse) <= set(without_values),
        )

    @property
    def sparse(self) -> tuple[int, ...]:
        """All layers with index keys, in order."""
        return tuple(sorted((*self.keys_only, *self.keys_and_values)))
