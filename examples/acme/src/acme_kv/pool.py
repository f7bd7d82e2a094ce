"""Keys and values of a layer in one tensor, `[2, slots, heads, width]`, as Acme's kernels want."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kvproto import AttentionLayer, Declined, LayerTransferCounter, MHALeafRequest, WriteLocation


class AcmePool:
    """K at index 0 and V at index 1 of one allocation per layer; equal widths only."""

    get_cpu_copy = None
    load_cpu_copy = None

    def __init__(self, request: MHALeafRequest) -> None:
        self.size, self.page_size = request.size, request.page_size
        self.dtype = self.store_dtype = request.dtype
        self.device = torch.device(request.device)
        self.layer_num = request.layer_num
        self.start_layer, self.end_layer = request.start_layer, request.end_layer
        shape = (2, self.size + self.page_size, request.head_num, request.head_dim)
        self._layers = [
            torch.zeros(shape, dtype=self.dtype, device=self.device) for _ in range(self.layer_num)
        ]
        self._counter: LayerTransferCounter | None = None

    def _layer(self, layer_id: int) -> Tensor:
        if not self.start_layer <= layer_id < self.end_layer:
            raise ValueError(f"layer {layer_id} is not on this stage")
        return self._layers[layer_id - self.start_layer]

    def _read(self, layer_id: int) -> Tensor:
        layer = self._layer(layer_id)
        if self._counter is not None:
            self._counter.wait_until(layer_id - self.start_layer)
        return layer

    def get_key_buffer(self, layer_id: int) -> Tensor:
        return self._read(layer_id)[0]

    def get_value_buffer(self, layer_id: int) -> Tensor:
        return self._read(layer_id)[1]

    def get_kv_buffer(self, layer_id: int) -> tuple[Tensor, Tensor]:
        key, value = self._read(layer_id).unbind()
        return key, value

    def set_kv_buffer(
        self,
        layer: AttentionLayer,
        loc_info: Tensor | WriteLocation,
        cache_k: Tensor,
        cache_v: Tensor,
    ) -> None:
        target = self._layer(layer.layer_id)
        loc = loc_info if isinstance(loc_info, Tensor) else loc_info.loc
        for rows in (cache_k, cache_v):
            if rows.shape != (len(loc), *target.shape[2:]):
                raise ValueError(f"rows of shape {tuple(rows.shape)} do not fit")
        # Padded rows go to the reserved slot as zeros: no shape depends on the data.
        kept = (loc > 0).view(-1, 1, 1)
        index = loc.clamp(min=0).long()
        if loc.device.type == "cpu" and not self._in_range(loc, target.shape[1]):
            raise IndexError(f"a location is past slot {target.shape[1] - 1}")
        for side, rows in enumerate((cache_k, cache_v)):
            target[side].index_copy_(0, index, torch.where(kept, rows, 0).to(self.dtype))

    @staticmethod
    def _in_range(loc: Tensor, slots: int) -> bool:
        try:
            torch.ops.aten._assert_async.msg((loc < slots).all(), "out of range")
        except RuntimeError:
            return False
        return True

    def register_layer_transfer_counter(self, counter: LayerTransferCounter) -> None:
        self._counter = counter

    def get_contiguous_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        sides = [layer[side] for side in (0, 1) for layer in self._layers]
        items = [side[0].nbytes * self.page_size for side in sides]
        return [side.data_ptr() for side in sides], [side.nbytes for side in sides], items

    def maybe_get_custom_mem_pool(self) -> None:
        return None


def build(request: Any) -> AcmePool | Declined:
    """Acme's factory."""
    match request:
        case MHALeafRequest(layout="nhd", quant_scheme="none", enable_memory_saver=False) if (
            request.value_head_dim == request.head_dim
        ):
            return AcmePool(request)
        case _:
            return Declined("K and V rows of one width, not quantised, in memory that stays")
