"""What a leaf tells the builder of a host tier: its buffers, and the host pools to keep of them.

Names are those that consumers read today.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from kvproto.protocols import Layout

__all__ = [
    "DevicePoolInfo",
    "HostPoolDecl",
    "HostPoolStorageInfo",
    "KVBuffers",
    "MHABufferInfo",
    "MLABufferInfo",
    "PoolName",
]

PoolName: TypeAlias = Literal["kv", "indexer"]
"""The rows that attention reads; the index keys that go by their pages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KVBuffers:
    """The key and the value buffer of each layer, in the store dtype; aliases.

    `layout` is `nhd` for envelopes too, whose buffers are strided. There is no table of pointers.
    """

    k: tuple[Tensor, ...]
    v: tuple[Tensor, ...]
    layout: Layout
    k_data_ptrs: Tensor | None = None
    v_data_ptrs: Tensor | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MHABufferInfo:
    """Rows by head; geometry is there for a stage without layers too."""

    buffers: KVBuffers
    page_size: int
    head_num: int
    head_dim: int
    v_head_dim: int
    dtype: torch.dtype
    device: torch.device
    scales: None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MLABufferInfo:
    """Latent rows `[slots, 1, kv_cache_dim]` as stored; `layer_indices` are places in the leaf."""

    buffers: tuple[Tensor, ...]
    layer_indices: tuple[int, ...]
    device_layer_num: int
    page_size: int
    kv_lora_rank: int
    qk_rope_head_dim: int
    kv_cache_dim: int
    dtype: torch.dtype
    device: torch.device
    packed_fp8: bool
    data_ptrs: Tensor | None = None
    scales: None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicePoolInfo:
    """A set of rows that is indexed alike; `layer_ids` are global, in the order of the buffers."""

    pool_name: PoolName
    indices_from_pool: PoolName
    layer_ids: tuple[int, ...]
    buffer_info: MHABufferInfo | MLABufferInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPoolStorageInfo:
    """Bytes that a host pool keeps of a token in a layer, and of what type they are."""

    bytes_per_token_per_layer: int
    dtype: torch.dtype

    def page_bytes(self, page_size: int) -> int:
        """Bytes of one page of one layer."""
        return self.bytes_per_token_per_layer * page_size


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPoolDecl:
    """A host pool to keep of `device_pool`.

    The first, of the rows, has pages of its own, and its bytes follow from the buffers. One that
    depends goes by the pages of `indices_from_pool` and has `storage_info`; `owned_device_layers`
    are the places of the layers that have some, None for all.
    """

    pool_name: PoolName
    device_pool: object
    indices_from_pool: PoolName | None = None
    layout_source: PoolName | None = None
    storage_info: HostPoolStorageInfo | None = None
    owned_device_layers: tuple[int, ...] | None = None

    @property
    def is_primary(self) -> bool:
        """Whether its pages are its own."""
        return self.indices_from_pool is None
