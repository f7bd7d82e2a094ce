"""Full attention in some layers, recurrent state in the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from kvproto.protocols import KVLeaf, StatePool, WriteLocation, require

from .composite_pool import CompositePool
from .sides import LeafLayer, Side

__all__ = ["HybridLinearPool"]


class HybridLinearPool(CompositePool):
    """A leaf for the attention layers beside the state pool of the recurrent ones.

    The doors of `KVPool` serve the attention layers only. The pool owns no tensor: any leaf will
    do, also one without a layer. Build it with `hybrid_pool`, which adds what the leaf allows.

    `full_attention_layer_ids` are global ids, in the order of the leaf's layers; those of the
    state are the state pool's, and a layer may have both. `start_layer` and `end_layer`
    (exclusive) are the stage's, just around the layers of both kinds by default.

    :raises CapabilityError: for a leaf or a state pool that is none.
    :raises ValueError: for ids that do not fit the leaf.
    """

    # Declared, so that a capability check is settled on the class (see `kvproto.adopt`).
    full_kv_pool: KVLeaf
    mamba_pool: StatePool
    full_attention_layer_id_mapping: Mapping[int, int]

    def __init__(
        self,
        *,
        full_kv_pool: KVLeaf,
        mamba_pool: StatePool,
        full_attention_layer_ids: Sequence[int],
        start_layer: int | None = None,
        end_layer: int | None = None,
    ) -> None:
        require(mamba_pool, StatePool, for_="the state side of a hybrid pool")
        side = Side("full", full_kv_pool, tuple(full_attention_layer_ids))
        super().__init__((side,), start_layer, end_layer, mamba_pool.mamba_layer_ids)
        self.full_kv_pool, self.mamba_pool = full_kv_pool, mamba_pool
        self.full_attention_layer_id_mapping = {i: n for n, i in enumerate(side.layer_ids)}

    def leaves(self) -> tuple[tuple[str, object], ...]:
        """The attention leaf as "full", the state pool as "state"."""
        return (*super().leaves(), ("state", self.mamba_pool))

    def _locations(self, place: LeafLayer, loc_info: Tensor | WriteLocation) -> Tensor:
        if isinstance(loc_info, Tensor):
            return loc_info
        return loc_info.loc if loc_info.full_loc is None else loc_info.full_loc

    def get_state_layer_ids(self) -> list[int]:
        """The global layer id of each state region."""
        return self.mamba_pool.get_state_layer_ids()

    def get_state_dim_per_tensor(self) -> list[int]:
        """Length of the split axis of each state region."""
        return self.mamba_pool.get_state_dim_per_tensor()

    def get_state_slice_outer_counts(self) -> list[int]:
        """Rows before the split axis of each state region."""
        return self.mamba_pool.get_state_slice_outer_counts()

    def get_state_conv_shard_groups(self) -> list[list[int] | None]:
        """Unsplit block lengths of each state region."""
        return self.mamba_pool.get_state_conv_shard_groups()

    def get_state_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        """The state pool's regions, by state slot."""
        return self.mamba_pool.get_contiguous_buf_infos()
