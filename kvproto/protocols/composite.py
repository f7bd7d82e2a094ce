"""Pools made of other pools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ._capability import Capability

if TYPE_CHECKING:
    from .leaf import KVLeaf

__all__ = ["Composite"]


@runtime_checkable
class Composite(Capability, Protocol):
    """Can the pool name the leaves that own its storage?

    Whoever needs a storage capability (rows, scales, indexer keys) resolves to a leaf first:
    what a composite forwards works for some leaves only. `end_layer`, where there is one, is one
    past the last id of all parts.
    """

    def leaves(self) -> tuple[tuple[str, object], ...]:
        """`(role, leaf)` of every part that owns tensors, once each, in a fixed order.

        Roles are the pool's own short names ("full", "swa", "index", "state"), no two alike.
        No part is a composite itself. The same objects on every call.
        """
        ...

    def leaf_for(self, layer_id: int, /) -> tuple[KVLeaf, int]:
        """The leaf that serves a global layer id, and the id to ask that leaf's doors with.

        :raises ValueError: for an id that no leaf serves, naming those that are.
        """
        ...
