"""A small honest pool with every door that debug mode has rules for, and ways to make it lie."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from kvproto.debug import ContractViolation
from kvproto.protocols import LayerTransferCounter

SIZE, PAGE, HEADS, KEY, VALUE, LAYERS = 8, 2, 2, 4, 3, 2


class Layer:
    """What attention passes for a layer."""

    def __init__(self, layer_id: int = 0) -> None:
        self.layer_id = layer_id


class ToyPool:
    """KVLeaf, SWACapable, Transferable, Movable and HostCopyable; data is assigned, not declared.

    `calls` lists the members that were really entered, `answers` replaces what they return.
    """

    def __init__(self) -> None:
        self.size, self.page_size, self.layer_num = SIZE, PAGE, LAYERS
        self.start_layer, self.end_layer = 0, LAYERS
        self.dtype = self.store_dtype = torch.float32
        self.device = "cpu"
        self.head_num, self.head_dim, self.v_head_dim = HEADS, KEY, VALUE
        self.full_to_swa_index_mapping: Tensor | None = None
        self.cpu_copy_carries_mamba = False
        self.keys = torch.zeros(LAYERS, SIZE + PAGE, HEADS, KEY)
        self.values = torch.zeros(LAYERS, SIZE + PAGE, HEADS, VALUE)
        self.calls: list[str] = []
        self.answers: dict[str, Any] = {}

    def _answer(self, name: str, honest: Any) -> Any:
        self.calls.append(name)
        return self.answers.get(name, honest)

    def get_key_buffer(self, layer_id: int) -> Any:
        return self._answer("get_key_buffer", self.keys[layer_id])

    def get_value_buffer(self, layer_id: int) -> Any:
        return self._answer("get_value_buffer", self.values[layer_id])

    def get_kv_buffer(self, layer_id: int) -> Any:
        return self._answer("get_kv_buffer", (self.keys[layer_id], self.values[layer_id]))

    def set_kv_buffer(self, layer: Any, loc: Any, cache_k: Any, cache_v: Any) -> None:
        self.calls.append("set_kv_buffer")
        self.keys[layer.layer_id][loc.long()] = cache_k.float()
        self.values[layer.layer_id][loc.long()] = cache_v.float()

    def register_layer_transfer_counter(self, layer_transfer_counter: LayerTransferCounter) -> None:
        self.calls.append("register_layer_transfer_counter")

    def register_mapping(self, full_to_swa_index_mapping: Tensor) -> None:
        self.full_to_swa_index_mapping = full_to_swa_index_mapping

    def translate_loc_from_full_to_swa(self, kv_indices: Tensor) -> Any:
        table = self.full_to_swa_index_mapping
        honest = kv_indices.clone() if table is None else table[kv_indices]
        return self._answer("translate_loc_from_full_to_swa", honest)

    def get_contiguous_buf_infos(self) -> Any:
        item = PAGE * HEADS * KEY * 4
        return self._answer("get_contiguous_buf_infos", ([16], [item * 5], [item]))

    def maybe_get_custom_mem_pool(self) -> None:
        return None

    def move_kv_cache(self, tgt_loc: Tensor, src_loc: Tensor) -> None:
        self.calls.append("move_kv_cache")

    def get_cpu_copy(
        self,
        indices: Tensor,
        mamba_indices: Tensor | None = None,
        req_pool_index: int | None = None,
    ) -> Any:
        return self._answer("get_cpu_copy", self.keys[:, indices])

    def load_cpu_copy(
        self,
        kv_cache_cpu: Any,
        indices: Tensor,
        mamba_indices: Tensor | None = None,
        req_pool_index: int | None = None,
    ) -> None:
        self.calls.append("load_cpu_copy")


def locations(*values: int, dtype: torch.dtype = torch.int64) -> Tensor:
    return torch.tensor(values, dtype=dtype)


def rows(n: int, width: int) -> Tensor:
    return torch.ones(n, HEADS, width)


def refusal(call: Callable[..., object], *args: Any, **kwargs: Any) -> str:
    """The message with which a call is refused; one line, and free of tensor values."""
    with pytest.raises(ContractViolation) as caught:
        call(*args, **kwargs)
    message = str(caught.value)
    assert "\n" not in message
    assert "tensor(" not in message
    return message
