"""Leaves of another layout than one row after the other, right but for one fault each."""

# pyright: reportIncompatibleMethodOverride=false
# These pools are wrong on purpose.

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from kvproto.protocols import Axis, BufferRegion, MHALeafRequest, PoolTraits, Tile
from kvproto.reference import MHALeaf
from kvproto.reference.row_stores import TiledRows

from .registry import mutant


def _as_rows(cls: Any, request: MHALeafRequest) -> Any:
    """One row after the other, whatever was asked for."""
    pool = cls(**replace(request, layout="nhd").keywords())
    pool.pool_traits = replace(pool.pool_traits, layout=request.layout)
    return pool


@mutant("leaf.read-doors", serves=MHALeafRequest, layouts=("hnd",), build=_as_rows)
class DeclaresHeadsFirst(MHALeaf):
    """Says `hnd` and builds `nhd`."""


@mutant("traits.request", serves=MHALeafRequest, layouts=("paged_nhd",))
class SaysRowsBuildsPages(MHALeaf):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.pool_traits = PoolTraits(
            kind="mha",
            layout="nhd",
            quant_scheme=self.pool_traits.quant_scheme,
            fp8_variant=self.pool_traits.fp8_variant,
        )


@mutant(
    "transfer.item-len",
    source="taco-project/FlexKV#274",
    serves=MHALeafRequest,
    layouts=("hnd",),
)
class MultipliesPagesByTokens(MHALeaf):
    """An index of the first dimension is a page here, and is counted as a token."""

    def get_contiguous_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        buffers = [*self.k_buffer, *self.v_buffer]
        items = [buffer[0].nbytes * self.page_size for buffer in buffers]
        return [b.data_ptr() for b in buffers], [b.nbytes for b in buffers], items


@mutant(
    "transfer.item-len",
    source="sgl-project/sglang#5563",
    serves=MHALeafRequest,
    layouts=("paged_nhd",),
)
class CountsTokensOfPages(MHALeaf):
    def get_contiguous_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        buffers = [*self.k_buffer, *self.v_buffer]
        items = [buffer[0, 0].nbytes for buffer in buffers]
        return [b.data_ptr() for b in buffers], [b.nbytes for b in buffers], items


@mutant(
    "move.overlap",
    source="sgl-project/sglang#31215",
    serves=MHALeafRequest,
    layouts=("paged_nhd",),
)
class MovesWholePages(MHALeaf):
    def move_kv_cache(self, tgt_loc: Tensor, src_loc: Tensor, /) -> None:
        tgt, src = tgt_loc // self.page_size, src_loc // self.page_size
        for buffer in (*self.k_buffer, *self.v_buffer):
            buffer[tgt] = buffer[src]


@mutant("host-copy.round-trip", serves=MHALeafRequest, layouts=("hnd",))
class CopiesPagesForSlots(MHALeaf):
    def get_cpu_copy(
        self, indices: Tensor, mamba_indices: Any = None, req_pool_index: Any = None
    ) -> Any:
        last = self.size // self.page_size
        return [b[indices.clamp(max=last)] for b in (*self.k_buffer, *self.v_buffer)]

    def load_cpu_copy(
        self,
        kv_cache_cpu: Any,
        indices: Tensor,
        mamba_indices: Any = None,
        req_pool_index: Any = None,
    ) -> None:
        last = self.size // self.page_size
        for buffer, pages in zip((*self.k_buffer, *self.v_buffer), kv_cache_cpu, strict=True):
            buffer[indices.clamp(max=last)] = pages


@mutant("leaf.write-read", serves=MHALeafRequest, layouts=("vectorized_5d",))
class PacksValuesLikeKeys(MHALeaf):
    """Values lie with 16 bytes of a row together, where those of a page's tokens should."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        page, width = self.page_size, self.v_head_dim
        packed = 16 // self.dtype.itemsize
        along_rows = ((self.head_num, page * width), (width // packed, page * packed), (packed, 1))
        tiles = replace(self._values.layout.tiles, token=((page, packed),), row=along_rows)
        stores = tuple(TiledRows(buffer, tiles) for buffer in self.v_buffer)
        self._values = replace(self._values, stores=stores)


@mutant("leaf.read-doors", serves=MHALeafRequest, layouts=("vectorized_5d",))
class ShowsValuesUnpacked(MHALeaf):
    """The other convention of the same kernels' family: values of `[pages, heads, width, page]`."""

    def get_value_buffer(self, layer_id: int, /) -> Tensor:
        packed = super().get_value_buffer(layer_id)
        pages, heads, _, width, _ = packed.shape
        return packed.view(pages, heads, width, self.page_size)


@mutant("oracle.rows", serves=MHALeafRequest, layouts=("vectorized_5d",))
class DeclaresNarrowerVectors(MHALeaf):
    def buffer_regions(self) -> tuple[BufferRegion, ...]:
        return tuple(self._narrower(region) for region in super().buffer_regions())

    def _narrower(self, region: BufferRegion) -> BufferRegion:
        (field,) = region.fields
        _, head, dim = field.axes
        if field.name != "key":
            return region
        half, size = 8 // self.dtype.itemsize, self.dtype.itemsize
        tokens = Axis("token", (Tile(self.page_size, half * size),))
        blocks = Axis("dim", (Tile(dim.size // half, self.page_size * 8), Tile(half, size)))
        return replace(region, fields=(replace(field, axes=(tokens, head, blocks)),))


@mutant("host-tier.fields", serves=MHALeafRequest, layouts=("hnd",))
class StridesHeadsByRows(MHALeaf):
    def buffer_regions(self) -> tuple[BufferRegion, ...]:
        return tuple(_heads_by_rows(region) for region in super().buffer_regions())


@mutant(
    "transfer.fingerprint",
    source="NVIDIA/TensorRT-LLM#6507",
    serves=MHALeafRequest,
    layouts=("nhd", "hnd"),
)
class TellsPeersOneLayout(MHALeaf):
    """Whatever lies in its pages, peers are told that rows follow each other."""

    def buffer_regions(self) -> tuple[BufferRegion, ...]:
        return tuple(_as_if_dense(region) for region in super().buffer_regions())


@mutant(
    "leaf.negative-loc",
    source="lightseekorg/tokenspeed#709",
    serves=MHALeafRequest,
    layouts=("hnd", "paged_nhd"),
)
class WrapsNegativePages(MHALeaf):
    def set_kv_buffer(self, layer: Any, loc_info: Any, *rows: Any, **named: Any) -> None:
        loc = loc_info if isinstance(loc_info, Tensor) else loc_info.loc
        wrapped = torch.where(loc < 0, loc % (self.size + self.page_size), loc)
        super().set_kv_buffer(layer, wrapped, *rows, **named)


def _heads_by_rows(region: BufferRegion) -> BufferRegion:
    (field,) = region.fields
    token, head, dim = field.axes
    wrong = Axis("head", tuple(Tile(t.extent, dim.size * field.element_bytes) for t in head.tiles))
    return replace(region, fields=(replace(field, axes=(token, wrong, dim)),))


def _as_if_dense(region: BufferRegion) -> BufferRegion:
    (field,) = region.fields
    axes, stride = list[Axis](), field.element_bytes
    for axis in reversed(field.axes):
        axes.insert(0, Axis(axis.name, (Tile(axis.size, stride),)))
        stride *= axis.size
    return replace(region, fields=(replace(field, axes=tuple(axes)),))
