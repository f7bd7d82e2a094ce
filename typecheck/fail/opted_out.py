"""A pool that set a member to None does not have the capability."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from torch import Tensor

from kvproto.protocols import KVPool, LayerIdReporting, Movable
from kvproto.reference import NoOpLeaf, PageEnvelopeLeaf


class CannotMove:
    move_kv_cache: ClassVar[Callable[[Tensor, Tensor], None] | None] = None


_: type[Movable] = CannotMove  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
no_rows: type[KVPool] = NoOpLeaf  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
no_ids: type[LayerIdReporting] = PageEnvelopeLeaf  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
