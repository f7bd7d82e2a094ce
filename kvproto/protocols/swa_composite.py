"""A full-attention leaf and a sliding-window leaf behind one door."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from .swa import SWACapable

if TYPE_CHECKING:
    from .leaf import KVLeaf

__all__ = ["SWAComposite"]


@runtime_checkable
class SWAComposite(SWACapable, Protocol):
    """Is each layer of the pool in one of two leaves, a full one or a windowed one?

    Storage capabilities are asked of the leaves.
    """

    @property
    def full_kv_pool(self) -> KVLeaf:
        """The leaf of the full-attention layers, addressed by full locations; may own no layer."""
        ...

    @property
    def swa_kv_pool(self) -> KVLeaf:
        """The leaf of the window layers, addressed by window locations."""
        ...

    @property
    def layers_mapping(self) -> Mapping[int, tuple[int, bool]]:
        """Global layer id -> (the layer's index in its leaf, whether that is the window leaf)."""
        ...

    @property
    def swa_layer_nums(self) -> int:
        """Window layers of this stage."""
        ...

    @property
    def size_swa(self) -> int:
        """Usable token slots of the window space, its reserved page not counted."""
        ...
