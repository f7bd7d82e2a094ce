"""What latent leaves declare of themselves: traits and regions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from kvproto.kernels import LATENT_BLOCK
from kvproto.protocols import (
    Axis,
    BufferRegion,
    Field,
    IndexLayout,
    IndexScheme,
    PoolTraits,
    Tile,
    row_major,
)
from kvproto.protocols.layout import AxisName, ElementType, FieldName

from .elements import ELEMENT_OF, FP8_VARIANT_OF, check_element
from .latent_format import PackedLatent, PlainLatent

__all__ = ["dsa_traits", "latent_region", "mla_traits", "tail_region"]


def mla_traits(row: PlainLatent | PackedLatent) -> PoolTraits:
    """The traits of latent rows: the same on every tensor-parallel rank.

    :raises ValueError: for an element type rows cannot be stored in.
    """
    base = PoolTraits(kind="mla", layout="latent_rows", replication="tp_replicated")
    if isinstance(row, PackedLatent):
        return replace(base, quant_scheme="dsa_fp8_packed", fp8_variant="e4m3fn")
    check_element(row.dtype)
    variant = FP8_VARIANT_OF.get(row.dtype)
    if variant is None:
        return base
    return replace(base, quant_scheme="fp8_scaled", fp8_variant=variant)


def dsa_traits(row: PlainLatent | PackedLatent, layout: IndexLayout = "token_rows") -> PoolTraits:
    """The same, with index keys that travel by KV page."""
    return replace(
        mla_traits(row), kind="dsa", index_scheme=_SCHEMES[layout], state_index_space="kv_pages"
    )


_SCHEMES: dict[IndexLayout, IndexScheme] = {
    "token_rows": "dsa_fp8_scale",
    "preshuffled": "dsa_fp8_scale_preshuffled",
}


def latent_region(
    row: PlainLatent | PackedLatent,
    buffers: Sequence[Tensor],
    layer_ids: tuple[int, ...],
    page_size: int,
) -> BufferRegion:
    """The region of per-layer buffers `[slots, 1, width]`."""
    pages = [buffer.view(-1, page_size, buffer.shape[-1]) for buffer in buffers]
    fields = _packed(row, page_size) if isinstance(row, PackedLatent) else _plain(row, page_size)
    return _region(fields, pages, layer_ids, page_size)


def tail_region(
    name: FieldName, rings: Sequence[Tensor], layer_ids: tuple[int, ...]
) -> BufferRegion:
    """The region of rings `[request rows, ring, width]`: a page is the ring of one request."""
    _, length, width = rings[0].shape
    axes = row_major("bfloat16", ("token", length), ("dim", width))
    return _region((Field(name, "bfloat16", axes),), rings, layer_ids, length)


def _plain(row: PlainLatent, page_size: int) -> tuple[Field, ...]:
    element = ELEMENT_OF[row.dtype]
    token = Axis("token", (Tile(page_size, row.width * row.dtype.itemsize),))

    def part(name: FieldName, first: int, size: int) -> Field:
        axes = (token, *row_major(element, ("dim", size)))
        return Field(name, element, axes, offset=first * row.dtype.itemsize)

    latent = part("latent", 0, row.rank)
    return (latent, part("rope", row.rank, row.rope)) if row.rope else (latent,)


def _packed(row: PackedLatent, page_size: int) -> tuple[Field, ...]:
    token = Axis("token", (Tile(page_size, row.width),))
    blocks = row.rank // LATENT_BLOCK
    rope_at = row.width - row.rope * torch.bfloat16.itemsize

    def part(name: FieldName, element: ElementType, along: AxisName, size: int, at: int) -> Field:
        return Field(name, element, (token, *row_major(element, (along, size))), offset=at)

    latent = part("latent", "float8_e4m3fn", "dim", row.rank, 0)
    scale = part("scale", "float32", "group", blocks, row.rank)
    if not row.rope:
        return latent, scale
    return latent, scale, part("rope", "bfloat16", "dim", row.rope, rope_at)


def _region(
    fields: tuple[Field, ...],
    pages: Sequence[Tensor],
    layer_ids: tuple[int, ...],
    page_size: int,
) -> BufferRegion:
    return BufferRegion(
        layer_ids=layer_ids,
        bases=tuple(layer.data_ptr() for layer in pages),
        page_count=pages[0].shape[0],
        page_size=page_size,
        bytes_per_page=pages[0][0].nbytes,
        fields=fields,
    )
