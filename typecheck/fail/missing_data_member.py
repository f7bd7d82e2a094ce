"""All the doors, all the data, but for `store_dtype`."""

from __future__ import annotations

import torch

from kvproto.protocols import KVLeaf
from typecheck.vendors.acme import AcmePool


class NoStoreDtype:
    size = 8
    page_size = 1
    dtype = torch.bfloat16
    device = "cpu"
    layer_num = 1
    start_layer = 0
    end_layer = 1
    get_key_buffer = AcmePool.get_key_buffer
    get_value_buffer = AcmePool.get_value_buffer
    get_kv_buffer = AcmePool.get_kv_buffer
    set_kv_buffer = AcmePool.set_kv_buffer
    register_layer_transfer_counter = AcmePool.register_layer_transfer_counter


_: type[KVLeaf] = NoStoreDtype  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
