"""Multi-head attention: rows of keys and of values, by head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ._capability import Capability

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["MHARows"]


@runtime_checkable
class MHARows(Capability, Protocol):
    """Does the pool own a key and a value row per head for every token?

    How the rows lie in memory is not asked here: `PoolTraits.layout` says it.
    """

    @property
    def k_buffer(self) -> Sequence[Tensor] | Tensor:
        """The key storage in the store dtype, by local layer (`layer_id - start_layer`)."""
        ...

    @property
    def v_buffer(self) -> Sequence[Tensor] | Tensor:
        """The value storage in the store dtype, by local layer."""
        ...

    @property
    def head_num(self) -> int:
        """KV heads on this rank."""
        ...

    @property
    def head_dim(self) -> int:
        """Width of a key row of one head, in elements before any packing."""
        ...

    @property
    def v_head_dim(self) -> int:
        """Width of a value row of one head, in elements before any packing; at least 1."""
        ...

    def get_v_head_dim(self) -> int:
        """The width that attention sees in `get_value_buffer`; no layer is touched to know it."""
        ...
