"""Full attention in some layers, recurrent state in the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from .state_transfer import StateSliceable

if TYPE_CHECKING:
    from .leaf import KVLeaf
    from .state_pool import StatePool

__all__ = ["HybridComposite"]


@runtime_checkable
class HybridComposite(StateSliceable, Protocol):
    """Does the pool pair a full-attention leaf with a pool of recurrent state?

    The doors of `KVPool` serve the attention layers only; the state is reached through the
    request pool, whose rows own its slots.
    """

    @property
    def full_kv_pool(self) -> KVLeaf:
        """The leaf of the attention layers; storage capabilities are asked of it."""
        ...

    @property
    def full_attention_layer_id_mapping(self) -> Mapping[int, int]:
        """Global id of each attention layer -> its index in `full_kv_pool`; may be empty."""
        ...

    @property
    def mamba_pool(self) -> StatePool:
        """The state of the other layers, indexed by state slot."""
        ...

    def get_state_layer_ids(self) -> list[int]:
        """The global layer id of each state region, in the order of `get_state_buf_infos`."""
        ...
