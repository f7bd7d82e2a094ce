"""Pools that keep keys and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ._capability import Capability

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["KeyOnly"]


@runtime_checkable
class KeyOnly(Capability, Protocol):
    """Does the pool own key rows that can be written without values?

    The index keys of sparse attention are kept in such pools. One that keeps no values at all
    has `get_value_buffer`, `get_kv_buffer` and `set_kv_buffer` set to None, or leaves them out.
    """

    @property
    def k_buffer(self) -> Sequence[Tensor] | Tensor:
        """The key storage in the store dtype, by local layer (`layer_id - start_layer`)."""
        ...

    @property
    def head_num(self) -> int:
        """Key heads on this rank."""
        ...

    @property
    def head_dim(self) -> int:
        """Width of a key row of one head, in elements before any packing."""
        ...

    def get_key_buffer(self, layer_id: int, /) -> Tensor:
        """All key rows of a layer, as in `KVPool.get_key_buffer`.

        :raises ValueError: for a layer id the pool does not own.
        """
        ...

    def set_k_buffer(self, layer_id: int, loc: Tensor, cache_k: Tensor, /) -> None:
        """Store `[n, head_num, head_dim]` keys at `[n]` locations of the layer.

        `layer_id` is the global id, as in `get_key_buffer`. Location 0 and below are dropped.

        :raises ValueError: for a layer id the pool does not own.
        """
        ...
