"""Multi-head attention in four bits: E2M1 elements, a scale for every 16 of them."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from kvproto.kernels import FP4_BLOCK, FP4Scales, dequantise_fp4
from kvproto.kernels.fp8 import Scale, checked_scale

from .block_layout import block_traits
from .block_rows import BlockRows, ToQuantise
from .block_scaled import BlockScaledLeaf, Side
from .elements import check_geometry
from .layers import OwnedLayers
from .scale_layout import TokenScales

__all__ = ["FP4Leaf", "FourBitLeaf", "check_fp4"]


class FourBitLeaf(BlockScaledLeaf):
    """Packed rows `[size + page_size, head_num, width // 2]`, read as dequantised bfloat16 copies.

    The constructor takes the keywords in use today, those of `MHALeaf`; `dtype` is
    `torch.float4_e2m1fn_x2`. A subclass names the style of the scales.

    :raises ValueError: for another dtype, widths that are not whole blocks, or impossible
        geometry, before anything is allocated.
    """

    _scheme: FP4Scales
    _element = "float4_e2m1fn_x2"
    _scale_dtype: ClassVar[torch.dtype]
    _flat_scales: ClassVar[bool]

    def __init__(
        self,
        size: int,
        page_size: int,
        dtype: torch.dtype,
        head_num: int,
        head_dim: int,
        layer_num: int,
        device: str | torch.device,
        enable_memory_saver: bool = False,
        v_head_dim: int | None = None,
        start_layer: int | None = None,
        end_layer: int | None = None,
        enable_alt_stream: bool = True,
        enable_kv_cache_copy: bool = False,
    ) -> None:
        v_width = head_dim if v_head_dim is None else v_head_dim
        check_geometry(
            size=size, page_size=page_size, head_num=head_num, head_dim=head_dim, v_head_dim=v_width
        )
        check_fp4(dtype, head_dim=head_dim, v_head_dim=v_width)
        self.pool_traits = block_traits(self._scheme, "token_rows")
        k, v = (
            TokenScales(head_num, w // FP4_BLOCK, self._flat_scales) for w in (head_dim, v_width)
        )
        super().__init__(
            size,
            page_size,
            dtype,
            (head_num, head_dim, v_width),
            (k, v),
            torch.uint8,
            OwnedLayers.of(layer_num, start_layer, end_layer),
            device,
            enable_memory_saver,
        )
        self._prepare_scales()

    def _prepare_scales(self) -> None:
        """The few numbers that are no rows, and stay while those are released."""
        self._one = torch.ones((), device=self.device)

    def get_key_buffer(self, layer_id: int, /) -> Tensor:
        """`[size + page_size, head_num, head_dim]` bfloat16, a fresh dequantised copy."""
        return self._dequantised(self._fenced(layer_id), "k")

    def get_value_buffer(self, layer_id: int, /) -> Tensor:
        """`[size + page_size, head_num, v_head_dim]` bfloat16, a fresh dequantised copy."""
        return self._dequantised(self._fenced(layer_id), "v")

    def get_kv_buffer(self, layer_id: int, /) -> tuple[Tensor, Tensor]:
        """Both copies of a layer."""
        return self.get_key_buffer(layer_id), self.get_value_buffer(layer_id)

    def get_raw_kv_buffer(self, layer_id: int, /) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """`(keys, values, key scales, value scales)` of a layer as stored; aliases."""
        local = self._fenced(layer_id)
        k_scales = self.k_scale_buffer[local].view(self._scale_dtype)
        v_scales = self.v_scale_buffer[local].view(self._scale_dtype)
        return self.k_buffer[local], self.v_buffer[local], k_scales, v_scales

    def get_kv_scale_buffer(self, layer_id: int, /) -> tuple[Tensor, Tensor]:
        """Key and value scales of a layer, as the raw door shows them; aliases."""
        return self.get_raw_kv_buffer(layer_id)[2:]

    def _dequantised(self, local: int, side: Side) -> Tensor:
        return self._read(*self._stored(local, side), local, side, torch.bfloat16)

    def _stored(self, local: int, side: Side) -> tuple[Tensor, Tensor]:
        """Elements `[slots, heads, bytes]` and scales `[slots, heads, blocks]` of a layer."""
        buffers, scales = (
            (self.k_buffer, self._k_scale_bytes)
            if side == "k"
            else (self.v_buffer, self._v_scale_bytes)
        )
        elements = buffers[local]
        blocks = 2 * elements.shape[2] // FP4_BLOCK
        return elements, scales[local].view(*elements.shape[:2], blocks)

    def _read(
        self, elements: Tensor, scales: Tensor, local: int, side: Side, dtype: torch.dtype
    ) -> Tensor:
        return dequantise_fp4(elements, scales, self._scheme, self._own_scale(local, side), dtype)

    def _own_scale(self, local: int, side: Side) -> Tensor:
        """The scale that all blocks of a layer are under."""
        return self._one

    def _row_bytes(self, width: int) -> int:
        return width // 2

    def _encode(self, local: int, side: Side, rows: Tensor, scale: Scale) -> BlockRows:
        own = self._own_scale(local, side) if scale is None else self._given_scale(scale)
        return ToQuantise(rows, self._scheme, own)

    def _given_scale(self, scale: float | Tensor) -> Tensor:
        checked = checked_scale(scale)
        if isinstance(checked, Tensor):
            return checked
        return torch.full((), checked, device=self.device)


class FP4Leaf(FourBitLeaf):
    """A leaf of packed rows under UE8M0 scales, `[size + page_size, head_num * width // 16]`.

    Read doors return a fresh bfloat16 copy of the whole layer, dequantised; `get_raw_kv_buffer`
    aliases what is stored. A scale given to a write divides the rows first, and whoever reads
    multiplies by it. Constructor and refusals as `FourBitLeaf`.
    """

    # No workspace: declared as not supported, so that the raw door is no half of `FP4Workspace`.
    dq_k_buffer: ClassVar[None] = None
    dq_v_buffer: ClassVar[None] = None
    _scheme = "fp4_mx16"
    _scale_dtype = torch.uint8
    _flat_scales = True


def check_fp4(dtype: torch.dtype, **widths: int) -> None:
    """:raises ValueError: for another dtype, or widths that are not whole blocks."""
    if dtype != torch.float4_e2m1fn_x2:
        raise ValueError(f"dtype={dtype}: FP4 rows are torch.float4_e2m1fn_x2")
    for name, width in widths.items():
        if width % FP4_BLOCK:
            raise ValueError(f"{name}={width}: FP4 scales whole blocks of {FP4_BLOCK}")
