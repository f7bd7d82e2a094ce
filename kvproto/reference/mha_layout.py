"""What an NHD leaf declares of itself: geometry that can exist, traits, regions."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from kvproto.protocols import BufferRegion, Field, PoolTraits, row_major
from kvproto.protocols.layout import ElementType, FieldName
from kvproto.protocols.traits import Fp8Variant

__all__ = ["ELEMENT_OF", "check_geometry", "nhd_region", "nhd_traits"]

ELEMENT_OF: dict[torch.dtype, ElementType] = {
    torch.bfloat16: "bfloat16",
    torch.float16: "float16",
    torch.float32: "float32",
    torch.float8_e4m3fn: "float8_e4m3fn",
    torch.float8_e4m3fnuz: "float8_e4m3fnuz",
    torch.float8_e5m2: "float8_e5m2",
    torch.float8_e5m2fnuz: "float8_e5m2fnuz",
}
"""The element types rows can be stored in."""

_VARIANT_OF: dict[torch.dtype, Fp8Variant] = {
    torch.float8_e4m3fn: "e4m3fn",
    torch.float8_e4m3fnuz: "e4m3fnuz",
    torch.float8_e5m2: "e5m2",
    torch.float8_e5m2fnuz: "e5m2fnuz",
}


def check_geometry(
    size: int, page_size: int, head_num: int, head_dim: int, v_head_dim: int
) -> None:
    """:raises ValueError: naming the first keyword that makes a pool impossible."""
    given = {
        "size": size,
        "page_size": page_size,
        "head_num": head_num,
        "head_dim": head_dim,
        "v_head_dim": v_head_dim,
    }
    for name, value in given.items():
        if value < 1:
            raise ValueError(f"{name}={value}: must be at least 1")
    if size % page_size:
        raise ValueError(
            f"size={size}: not a multiple of page_size={page_size}, the last page would be short; "
            f"round down to {size // page_size * page_size}"
        )


def nhd_traits(dtype: torch.dtype) -> PoolTraits:
    """The traits of plain or fp8 K and V rows in NHD layout.

    :raises ValueError: for an element type rows cannot be stored in.
    """
    if dtype not in ELEMENT_OF:
        raise ValueError(f"dtype={dtype}: must be one of {', '.join(map(str, ELEMENT_OF))}")
    variant = _VARIANT_OF.get(dtype)
    if variant is None:
        return PoolTraits(kind="mha", layout="nhd")
    return PoolTraits(kind="mha", layout="nhd", quant_scheme="fp8_scaled", fp8_variant=variant)


def nhd_region(
    name: FieldName,
    buffers: Sequence[Tensor],
    dtype: torch.dtype,
    layer_ids: tuple[int, ...],
    page_size: int,
) -> BufferRegion:
    """The region of per-layer buffers `[slots, heads, dim]`."""
    slots, heads, dim = buffers[0].shape
    element = ELEMENT_OF[dtype]
    axes = row_major(element, ("token", page_size), ("head", heads), ("dim", dim))
    return BufferRegion(
        layer_ids=layer_ids,
        bases=tuple(buffer.data_ptr() for buffer in buffers),
        page_count=slots // page_size,
        page_size=page_size,
        bytes_per_page=page_size * heads * dim * dtype.itemsize,
        fields=(Field(name, element, axes),),
    )
