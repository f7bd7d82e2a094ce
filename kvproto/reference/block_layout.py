"""What block-scaled leaves declare of themselves: traits and regions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from torch import Tensor

from kvproto.protocols import Axis, BufferRegion, Field, PoolTraits, Tile, row_major
from kvproto.protocols.layout import ElementType, FieldName
from kvproto.protocols.traits import QuantScheme, ScaleLayout

__all__ = [
    "SCALE_ELEMENT",
    "block_traits",
    "element_region",
    "latent_block_traits",
    "packed_latent_region",
    "scale_region",
]

SCALE_ELEMENT: dict[QuantScheme, ElementType] = {
    "mxfp8": "float8_e8m0fnu",
    "fp4_mx16": "float8_e8m0fnu",
    "nvfp4": "float8_e4m3fn",
}
"""What a scale byte means."""

_FP4: ElementType = "float4_e2m1fn_x2"


def block_traits(scheme: QuantScheme, layout: ScaleLayout) -> PoolTraits:
    """The traits of K and V rows under block scales: four bits are read as a copy."""
    wide = scheme == "mxfp8"
    return PoolTraits(
        kind="mha",
        layout="nhd",
        quant_scheme=scheme,
        fp8_variant="e4m3fn" if wide else "none",
        scale_layout=layout,
        read_door="alias" if wide else "copy",
    )


def latent_block_traits(scheme: QuantScheme) -> PoolTraits:
    """The traits of latent rows in four bits: rows of all layers, then scales of all layers."""
    return PoolTraits(
        kind="mla",
        layout="latent_rows",
        quant_scheme=scheme,
        scale_layout="token_rows",
        replication="tp_replicated",
        transfer_layout="component_groups",
        read_door="copy",
    )


def element_region(
    name: FieldName,
    element: ElementType,
    buffers: Sequence[Tensor],
    layer_ids: tuple[int, ...],
    page_size: int,
) -> BufferRegion:
    """The region of per-layer buffers of bytes, `[slots, heads, bytes]`."""
    _, heads, width = buffers[0].shape
    axes = row_major(element, ("token", page_size), ("head", heads), ("dim", width))
    return _region((Field(name, element, axes),), buffers, layer_ids, page_size)


def scale_region(
    name: FieldName,
    scheme: QuantScheme,
    axes: tuple[Axis, ...],
    buffers: Sequence[Tensor],
    layer_ids: tuple[int, ...],
) -> BufferRegion:
    """The region of per-layer buffers of scales; `axes` are those of a page."""
    field = Field(name, SCALE_ELEMENT[scheme], axes)
    return _region((field,), buffers, layer_ids, axes[0].size)


def packed_latent_region(
    widths: tuple[int, int],
    buffers: Sequence[Tensor],
    layer_ids: tuple[int, ...],
    page_size: int,
) -> BufferRegion:
    """The region of per-layer buffers of E2M1 bytes, `[slots, 1, latent and rope]`."""
    token = Axis("token", (Tile(page_size, sum(widths)),))

    def part(name: FieldName, width: int, offset: int) -> Field:
        axes = (token, *row_major(_FP4, ("dim", width)))
        return Field(name, _FP4, axes, offset=offset)

    latent = part("latent", widths[0], 0)
    fields = (latent, part("rope", widths[1], widths[0])) if widths[1] else (latent,)
    return _region(fields, buffers, layer_ids, page_size)


def _region(
    fields: tuple[Field, ...],
    buffers: Sequence[Tensor],
    layer_ids: tuple[int, ...],
    page_size: int,
) -> BufferRegion:
    page_bytes = sum(prod(field.shape) * field.element_bytes for field in fields)
    return BufferRegion(
        layer_ids=layer_ids,
        bases=tuple(buffer.data_ptr() for buffer in buffers),
        page_count=buffers[0].nbytes // page_bytes,
        page_size=page_size,
        bytes_per_page=page_bytes,
        fields=fields,
    )
