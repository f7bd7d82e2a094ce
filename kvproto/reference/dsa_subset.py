"""Sparse latent attention whose device holds the rows of some tokens, and the keys of all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from kvproto.protocols import AttentionLayer, IndexLayout, WriteLocation

from .dsa import DSALeaf
from .hisparse import DeviceLocations

__all__ = ["SubsetDSALeaf"]


class SubsetDSALeaf(DeviceLocations, DSALeaf):
    """Latent rows by device slot, index keys by id; doors are given ids, and find the slots.

    Keywords are those of `DSALeaf`, and `host_to_device_ratio`: of `size` device slots each
    stands for that many ids, so that index pages have ids up to `size * host_to_device_ratio +
    page_size`. A row whose id has no slot is dropped when it is written, and zeros when it is
    read: it is on the host. `get_key_buffer` is the slots' rows, as stored.

    :raises ValueError: for impossible geometry, or index keys of several tokens.
    """

    # Not supported: a token's row and its key are in two spaces, which only the owner of both
    # allocators and of the host's rows can move or export together.
    move_kv_cache = None  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    get_cpu_copy = None  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    load_cpu_copy = None  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    check_cpu_copy = None  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    get_contiguous_buf_infos = None  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    get_kv_layer_ids = None  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    get_state_buf_infos = None  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    get_device_pool_infos = None  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    host_pool_decls = None  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]

    host_to_device_ratio: int

    def __init__(
        self,
        size: int,
        page_size: int,
        kv_lora_rank: int,
        dtype: torch.dtype,
        qk_rope_head_dim: int,
        layer_num: int,
        device: str | torch.device,
        index_head_dim: int,
        enable_memory_saver: bool = False,
        kv_cache_dim: int | None = None,
        start_layer: int | None = None,
        end_layer: int | None = None,
        index_kpool: int = 1,
        index_kpool_compress: bool = False,
        tail_extra_slots: int = 0,
        max_running_requests: int | None = None,
        skip_topk_layers: Sequence[bool] | None = None,
        host_to_device_ratio: int = 2,
        index_dtype: torch.dtype | None = None,
        index_layout: IndexLayout = "token_rows",
    ) -> None:
        if host_to_device_ratio < 1:
            raise ValueError(f"host_to_device_ratio={host_to_device_ratio}: must be at least 1")
        self.host_to_device_ratio = host_to_device_ratio
        super().__init__(
            size,
            page_size,
            kv_lora_rank,
            dtype,
            qk_rope_head_dim,
            layer_num,
            device,
            index_head_dim,
            enable_memory_saver,
            kv_cache_dim,
            start_layer,
            end_layer,
            index_kpool,
            index_kpool_compress,
            tail_extra_slots,
            max_running_requests,
            skip_topk_layers,
            index_dtype=index_dtype,
            index_layout=index_layout,
        )
        self.pool_traits = replace(
            self.pool_traits, id_space="virtual", rows_are="device_slots", state_index_space="none"
        )

    @property
    def _id_slots(self) -> int:
        return self.size * self.host_to_device_ratio + self.page_size

    def get_mla_kv_buffer(
        self, layer: AttentionLayer, loc: Tensor, dst_dtype: torch.dtype | None = None
    ) -> tuple[Tensor, Tensor]:
        """The parts at `[n]` ids, as `MLALeaf`; zeros for ids without a slot."""
        return super().get_mla_kv_buffer(
            layer, self.translate_loc_to_hisparse_device(loc), dst_dtype
        )

    def _target(
        self,
        layer: AttentionLayer | None,
        loc_info: Tensor | WriteLocation,
        override: int | None,
    ) -> tuple[int, Tensor]:
        local, loc = super()._target(layer, loc_info, override)
        return local, self.translate_loc_to_hisparse_device(loc)
