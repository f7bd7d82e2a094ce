"""Multi-head attention in MXFP8: e4m3fn elements, a power of two for every 32 of them."""

from __future__ import annotations

import torch
from torch import Tensor

from kvproto.kernels import MXFP8_BLOCK, mxfp8_elements
from kvproto.kernels.fp8 import Scale
from kvproto.protocols.traits import ScaleLayout

from .block_layout import block_traits
from .block_rows import BlockRows, Quantised, ToQuantise
from .block_scaled import BlockScaledLeaf, Side
from .elements import check_geometry
from .layers import OwnedLayers
from .scale_layout import InterleavedScales, ScalesOfTokens, TokenScales

__all__ = ["MXFP8Leaf"]

_INTERLEAVED_PAGE = 128


class MXFP8Leaf(BlockScaledLeaf):
    """A leaf of e4m3fn rows `[size + page_size, head_num, width]` under UE8M0 scales.

    The constructor takes the keywords in use today, those of `MHALeaf`, and `scale_layout`: scales
    by token, `[size + page_size, head_num, width // 32]`, or interleaved, `[pages, head_num, 32,
    page_size // 32, width // 32]` (see `store_interleaved_scales`). None is what attention
    kernels expect: interleaved with pages of 128, else by token.

    :raises ValueError: for another dtype, widths that are not whole blocks, a layout that pages
        of this size cannot have, or impossible geometry; before anything is allocated.
    """

    MXFP8_SCALE_BLOCK_SIZE = MXFP8_BLOCK
    _element = "float8_e4m3fn"

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
        scale_layout: ScaleLayout | None = None,
    ) -> None:
        v_width = head_dim if v_head_dim is None else v_head_dim
        check_geometry(
            size=size, page_size=page_size, head_num=head_num, head_dim=head_dim, v_head_dim=v_width
        )
        _check(dtype, head_dim=head_dim, v_head_dim=v_width)
        layout = _layout(scale_layout, page_size)
        self.pool_traits = block_traits("mxfp8", layout)
        scales = tuple(_scales(layout, head_num, width, page_size) for width in (head_dim, v_width))
        super().__init__(
            size,
            page_size,
            dtype,
            (head_num, head_dim, v_width),
            (scales[0], scales[1]),
            torch.float8_e8m0fnu,
            OwnedLayers.of(layer_num, start_layer, end_layer),
            device,
            enable_memory_saver,
        )

    @property
    def mxfp8_sf_interleaved(self) -> bool:
        """Whether scales are interleaved within a page."""
        return self.pool_traits.scale_layout == "interleaved"

    def get_key_buffer(self, layer_id: int, /) -> Tensor:
        """`[size + page_size, head_num, head_dim]` e4m3fn without its scales; an alias."""
        return self.k_buffer[self._fenced(layer_id)].view(self.dtype)

    def get_value_buffer(self, layer_id: int, /) -> Tensor:
        """`[size + page_size, head_num, v_head_dim]` e4m3fn without its scales; an alias."""
        return self.v_buffer[self._fenced(layer_id)].view(self.dtype)

    def get_kv_buffer(self, layer_id: int, /) -> tuple[Tensor, Tensor]:
        """Both buffers of a layer."""
        return self.get_key_buffer(layer_id), self.get_value_buffer(layer_id)

    def _row_bytes(self, width: int) -> int:
        return width

    def _encode(self, local: int, side: Side, rows: Tensor, scale: Scale) -> BlockRows:
        stored = rows.dtype == self.dtype
        if scale is None:
            if stored:
                raise ValueError(
                    f"cache_{side} is {self.dtype}, quantised already: pass its scales as "
                    f"{side}_scale, or rows of a wider type; nothing was written"
                )
            return ToQuantise(rows, "mxfp8")
        scales = _given_scales(scale, rows, side)
        elements = rows.view(torch.uint8) if stored else mxfp8_elements(rows, scales)
        return Quantised(elements, scales)


def _given_scales(scale: Scale, rows: Tensor, side: Side) -> Tensor:
    wanted = (*rows.shape[:-1], rows.shape[-1] // MXFP8_BLOCK)
    if not isinstance(scale, Tensor) or scale.dtype not in (torch.float8_e8m0fnu, torch.uint8):
        got = f"a tensor of {scale.dtype}" if isinstance(scale, Tensor) else repr(scale)
    elif scale.shape != wanted:
        got = f"a tensor of shape {tuple(scale.shape)}"
    else:
        return scale.view(torch.uint8)
    raise ValueError(
        f"{side}_scale is {got}, must be {wanted} of torch.float8_e8m0fnu, the rows' own block "
        "scales, or None; nothing was written"
    )


def _check(dtype: torch.dtype, **widths: int) -> None:
    if dtype != torch.float8_e4m3fn:
        raise ValueError(f"dtype={dtype}: MXFP8 rows are torch.float8_e4m3fn")
    for name, width in widths.items():
        if width % MXFP8_BLOCK:
            raise ValueError(f"{name}={width}: MXFP8 scales whole blocks of {MXFP8_BLOCK}")


def _layout(asked: ScaleLayout | None, page_size: int) -> ScaleLayout:
    if asked is None:
        return "interleaved" if page_size == _INTERLEAVED_PAGE else "token_rows"
    if asked == "none":
        raise ValueError("scale_layout='none': MXFP8 keeps block scales, say where they lie")
    return asked


def _scales(layout: ScaleLayout, heads: int, width: int, page_size: int) -> ScalesOfTokens:
    blocks = width // MXFP8_BLOCK
    if layout == "interleaved":
        return InterleavedScales(heads, blocks, page_size)
    return TokenScales(heads, blocks)
