"""Callers pass a tensor or a `WriteLocation`; this door takes the tensor only."""

from __future__ import annotations

import torch
from torch import Tensor

from kvproto.protocols import AttentionLayer, KVLeaf
from typecheck.vendors.acme import AcmePool


class TensorsOnly:
    size = 8
    page_size = 1
    dtype = store_dtype = torch.bfloat16
    device = "cpu"
    layer_num = 1
    start_layer = 0
    end_layer = 1
    get_key_buffer = AcmePool.get_key_buffer
    get_value_buffer = AcmePool.get_value_buffer
    get_kv_buffer = AcmePool.get_kv_buffer
    register_layer_transfer_counter = AcmePool.register_layer_transfer_counter

    def set_kv_buffer(
        self, layer: AttentionLayer, loc_info: Tensor, cache_k: Tensor, cache_v: Tensor
    ) -> None: ...


_: type[KVLeaf] = TensorsOnly  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
