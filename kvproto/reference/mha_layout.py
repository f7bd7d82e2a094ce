"""What an NHD leaf declares of itself: traits and regions."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from kvproto.protocols import BufferRegion, Field, PoolTraits, row_major
from kvproto.protocols.layout import FieldName

from .elements import ELEMENT_OF, FP8_VARIANT_OF, check_element

__all__ = ["nhd_region", "nhd_traits"]


def nhd_traits(dtype: torch.dtype) -> PoolTraits:
    """The traits of plain or fp8 K and V rows in NHD layout.

    :raises ValueError: for an element type rows cannot be stored in.
    """
    check_element(dtype)
    variant = FP8_VARIANT_OF.get(dtype)
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
