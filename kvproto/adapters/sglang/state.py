"""Recurrent state of the reference, with what sglang asks of it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kvproto.debug import maybe_validate
from kvproto.reference import RecurrentStatePool, StateReqToToken, StateSlots
from kvproto.reference.state_tensors import RecurrentState

from .request_table import RowCalls

__all__ = ["SGLangStatePool", "SGLangStateReqToToken", "SGLangStateSlots"]


class SGLangState(RecurrentState):
    """The state of recurrent layers; sglang asks each if it has buffers for a replay: none."""

    __slots__ = ()
    replayssm_d = replayssm_k = replayssm_g = None
    replayssm_rawv = replayssm_rawk = replayssm_beta = None

    def at_layer(self, index: int) -> SGLangState:
        """The same for one layer, by its position; aliases."""
        conv = [windows[index] for windows in self.conv]
        return SGLangState(conv=conv, temporal=self.temporal[index])


class SGLangStatePool(RecurrentStatePool):
    """`RecurrentStatePool` of the shapes that sglang's configuration of a model has.

    There is no scratch for drafts, and no replay. With `KVPROTO_DEBUG=1` calls are validated.

    :raises ValueError: as `RecurrentStatePool`.
    """

    enable_linear_replayssm = enable_linear_replayssm_spec = False
    replayssm_spec_fold = replayssm_is_kda = False
    replayssm_write_pos = replayssm_spec_write_pos = None
    replayssm_cache_base = replayssm_is_flush = None
    host_capacity_tokens = None

    def __init__(
        self,
        *,
        size: int,
        cache_params: Any,
        mamba_layer_ids: list[int],
        device: str | torch.device,
        enable_memory_saver: bool = False,
    ) -> None:
        shape, dtype = cache_params.shape, cache_params.dtype
        super().__init__(
            size=size,
            mamba_layer_ids=mamba_layer_ids,
            conv_state_shape=shape.conv,
            temporal_state_shape=shape.temporal,
            conv_dtype=dtype.conv,
            ssm_dtype=dtype.temporal,
            device=device,
            enable_memory_saver=enable_memory_saver,
            # Some of sglang's shapes have these, and what they are without is sglang's rule.
            conv_slice_axis=getattr(shape, "conv_slice_axis", 0),
            conv_shard_groups=getattr(shape, "conv_shard_groups", None),
        )
        made = self.mamba_cache
        self.mamba_cache = SGLangState(conv=made.conv, temporal=made.temporal)
        maybe_validate(self)


class SGLangStateSlots(StateSlots):
    """`StateSlots`, whose free slots sglang's checks look at."""

    def __init__(self, size: int, device: str | torch.device) -> None:
        super().__init__(size, device)
        maybe_validate(self)

    @property
    def free_slots(self) -> Tensor:
        """As `get_all_free_pages`."""
        return self.get_all_free_pages()


class SGLangStateReqToToken(RowCalls, StateReqToToken):
    """`StateReqToToken` with the calls of sglang's request table of hybrid models.

    State slots are physical, so that nothing is translated. A further pool for states in eight
    bits, and states of single convolutions and n-grams beside these, there are none. With
    `KVPROTO_DEBUG=1` calls are validated.

    :raises ValueError, CapabilityError: as `StateReqToToken`.
    """

    mamba_v2p_table = None
    mamba_translate_is_fusable = True

    def __init__(self, **keywords: Any) -> None:
        StateReqToToken.__init__(self, **keywords)
        maybe_validate(self)

    def mamba2_layer_index(self, layer_id: int) -> int:
        """Where the state pool has the layer of this global id, once it is loaded.

        :raises ValueError: as `mamba2_layer_cache`.
        """
        self.mamba2_layer_cache(layer_id)
        return self.mamba_map[layer_id]

    def get_state_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        """As the state pool's `get_contiguous_buf_infos`."""
        return self.mamba_pool.get_contiguous_buf_infos()

    def get_state_dim_per_tensor(self) -> list[int]:
        """As the state pool's."""
        return self.mamba_pool.get_state_dim_per_tensor()

    def get_state_slice_outer_counts(self) -> list[int]:
        """As the state pool's."""
        return self.mamba_pool.get_state_slice_outer_counts()

    def get_state_conv_shard_groups(self) -> list[list[int] | None]:
        """As the state pool's."""
        return self.mamba_pool.get_state_conv_shard_groups()
