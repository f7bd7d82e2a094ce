"""Tokens that change their slot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ._capability import Capability

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Movable"]


@runtime_checkable
class Movable(Capability, Protocol):
    """Can the pool move a token's rows from one slot to another?

    A composite that moves all its leaves qualifies like a leaf. A pool that cannot, in the
    configuration it was built in, sets `move_kv_cache` to None on the class.
    """

    def move_kv_cache(self, tgt_loc: Tensor, src_loc: Tensor, /) -> None:
        """Copy everything kept for token slot `src_loc[i]` to `tgt_loc[i]`, in every layer.

        Both `[n]`, integer; `n == 0` is legal. Scales and index keys go along. As if all sources
        were read before a target is written: the two may overlap. Targets of 0 and below are
        dropped; in a window leaf so is a pair of which either has no peer. Sources keep their
        rows.

        :raises IndexError: on CPU, for a slot past the last row; nothing is moved.
        """
        ...
