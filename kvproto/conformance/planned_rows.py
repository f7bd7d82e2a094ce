"""What a request says of bytes, in the kit's own words: elements of fields, steps along axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from operator import mul
from typing import TypeAlias

from kvproto.protocols import (
    ELEMENT_BYTES,
    DSALeafRequest,
    Field,
    LeafRequest,
    SparseIndexLeafRequest,
)

from .kv_bench import KVBench
from .stored_rows import Side

__all__ = ["expected_elements", "inner_strides"]

Offset: TypeAlias = Callable[[int], int]
"""Bytes from the axis's step 0 to step i."""

_VECTOR_BYTES = 16


def expected_elements(request: LeafRequest, name: str) -> tuple[str, ...]:
    """The element types that a field of that name may have."""
    row = str(request.dtype).removeprefix("torch.")
    match name, request.quant_scheme:
        case (("tail_key" | "tail_score"), _):
            return ("bfloat16",)
        case "index_key", _ if isinstance(request, DSALeafRequest):
            return ("float8_e4m3fn",)
        case (("index_key" | "index_value"), _) if isinstance(request, SparseIndexLeafRequest):
            return (str(request.stored_index_dtype).removeprefix("torch."),)
        case (("scale" | "key_scale" | "value_scale"), ("mxfp8" | "fp4_mx16")):
            return ("float8_e8m0fnu",)
        case (("scale" | "key_scale" | "value_scale"), "nvfp4"):
            return ("float8_e4m3fn",)
        case "scale", _:
            return ("float32",)
        case "rope", "dsa_fp8_packed":
            return ("bfloat16",)
        case _:
            return (row,)


def inner_strides(request: LeafRequest, field: Field, bench: KVBench) -> Mapping[str, Offset]:
    """Where each step along an axis has to be, by the axis's name; of keys and values by head.

    Rows of `nhd` may have room between one another, as those of an envelope have: of theirs the
    token is left out.
    """
    if field.name not in ("key", "value") or field.element == "float4_e2m1fn_x2":
        return {}
    side: Side = "key" if field.name == "key" else "value"
    _, width = bench.row_shape(side)
    size, page = ELEMENT_BYTES[field.element], request.page_size
    x = _VECTOR_BYTES // size
    match request.layout, side:
        case "hnd", _:
            return _steps(head=page * width * size, token=width * size, dim=size)
        case "paged_nhd", _:
            heads, _ = bench.row_shape(side)
            return _steps(head=width * size, token=heads * width * size, dim=size)
        case "vectorized_5d", "key":
            along = _blocked(x, page * x * size, size)
            return _steps(head=page * width * size, token=x * size) | {"dim": along}
        case "vectorized_5d", "value":
            along = _blocked(x, width * x * size, size)
            return _steps(head=page * width * size, dim=x * size) | {"token": along}
        case _:
            return _steps(head=width * size, dim=size)


def _steps(**strides: int) -> dict[str, Offset]:
    return {name: partial(mul, stride) for name, stride in strides.items()}


def _blocked(block: int, outer: int, inner: int) -> Offset:
    return lambda i: i // block * outer + i % block * inner
