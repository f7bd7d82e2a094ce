"""Index keys in tensors of their own, a row for each token slot, instead of pages with scales."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ._capability import Capability

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["IndexKeyRows", "ScaledIndexKeyRows"]


@runtime_checkable
class IndexKeyRows(Capability, Protocol):
    """Are there rows of index keys beside latent rows, at the same token slots?

    Only layers that choose for themselves have some. Where keys and scales share pages a pool is
    `IndexerCapable` instead.
    """

    @property
    def index_head_dim(self) -> int:
        """Width of an index key, in elements."""
        ...

    @property
    def indexer_layer_ids(self) -> Sequence[int]:
        """The global ids of the layers that have index keys, ascending."""
        ...

    @property
    def index_k_buffer(self) -> Sequence[Tensor] | Tensor:
        """The keys of those layers, in that order, in their store dtype.

        Each is `[pages, page_size, 1, index_head_dim]`, the reserved page included.
        """
        ...

    def get_index_k_buffer(self, layer_id: int, /) -> Tensor:
        """The keys of a layer, in the dtype they mean: an alias of its entry of `index_k_buffer`.

        A read door: it waits for a registered layer transfer, like those of `KVPool`.

        :raises ValueError: for a global layer id the pool does not own, or without index keys.
        """
        ...

    def set_index_k_buffer(self, layer_id: int, loc: Tensor, index_k: Tensor, /) -> None:
        """Store `[n, 1, index_head_dim]` or `[n, index_head_dim]` keys at `[n]` token slots.

        Keys are of any float dtype and strides; quantised ones are of the stored type already.
        Slots are int32 or int64, of any strides; `n == 0` is legal. Slot 0 and below are dropped.

        :raises ValueError: for a layer without index keys, or keys of another number or width.
        :raises IndexError: on CPU, for a slot past the last; nothing is written.
        """
        ...


@runtime_checkable
class ScaledIndexKeyRows(IndexKeyRows, Protocol):
    """Has each of those keys a float32 scale, in a tensor beside them?"""

    @property
    def index_k_scale_buffer(self) -> Sequence[Tensor] | Tensor:
        """The scales of the same layers, each `[pages, page_size, 1]` float32."""
        ...

    def get_index_k_scale_buffer(self, layer_id: int, /) -> Tensor:
        """The scales of a layer; as `get_index_k_buffer`."""
        ...

    def set_index_k_scale_buffer(self, layer_id: int, loc: Tensor, scale: Tensor, /) -> None:
        """Store a scale for each of `[n]` token slots: `[n]`, or with axes of 1 behind.

        Otherwise as `set_index_k_buffer`; whoever sets a key sets its scale too.
        """
        ...
