"""Requests for leaves that lack a side: keys alone, or nothing at all. Neither is a `KVLeaf`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .row_request import RowsRequest, at_least

if TYPE_CHECKING:
    from .fallback import Fallback
    from .traits import Layout

__all__ = ["KeyOnlyLeafRequest", "NoOpLeafRequest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyOnlyLeafRequest(RowsRequest):
    """A leaf with one K row per token, for `head_num` heads of this rank, and no V rows.

    :raises ValueError: as `MHALeafRequest`.
    """

    head_num: int
    head_dim: int
    layout: Layout = "nhd"

    def __post_init__(self) -> None:
        self._check("head_num", "head_dim")

    def keywords(self) -> dict[str, Any]:
        """Keyword arguments for a constructor of the field's own shape."""
        return self._keywords("layout")


@dataclass(frozen=True, slots=True, kw_only=True)
class NoOpLeafRequest(RowsRequest):
    """A leaf that keeps no row, for models that only prefill: attention uses the rows at hand.

    `size` is what the scheduler admits requests by. Heads and widths are those of the rows that
    are not kept, since backends shape what the read doors give them; `v_head_dim` None means
    `head_dim`. With no row for a platform's kernels to read, the core's serves every platform.

    :raises ValueError: as `MHALeafRequest`.
    """

    head_num: int
    head_dim: int
    v_head_dim: int | None = None
    fallback: Fallback = "core"

    def __post_init__(self) -> None:
        self._check("head_num", "head_dim")
        if self.v_head_dim is not None:
            at_least(self, "v_head_dim", 1)

    @property
    def value_head_dim(self) -> int:
        """The width of a value head: `v_head_dim`, or `head_dim` where that is None."""
        return self.head_dim if self.v_head_dim is None else self.v_head_dim

    def keywords(self) -> dict[str, Any]:
        """Keyword arguments for a constructor of the field's own shape."""
        return self._keywords()
