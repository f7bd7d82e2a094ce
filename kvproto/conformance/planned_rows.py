"""What a request says of bytes, in the kit's own words: elements of fields, steps along axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import mul
from typing import TypeAlias

from kvproto.protocols import (
    ELEMENT_BYTES,
    DSALeafRequest,
    Field,
    LeafRequest,
    MHALeafRequest,
    MLALeafRequest,
    SparseIndexLeafRequest,
)

from .kv_bench import KVBench
from .stored_rows import Side

__all__ = [
    "expected_axes",
    "expected_elements",
    "inner_strides",
    "layers_with",
    "rows_to_a_slot",
]

Offset: TypeAlias = Callable[[int], int]
"""Bytes from the axis's step 0 to step i."""

_VECTOR_BYTES = 16
_ATOM = 32
"""Tokens whose scales interleaved layouts keep apart."""


def expected_elements(request: LeafRequest, name: str) -> tuple[str, ...]:
    """The element types that a field of that name may have."""
    row = str(request.dtype).removeprefix("torch.")
    match name, request.quant_scheme:
        case (("tail_key" | "tail_score"), _):
            return ("bfloat16",)
        case "index_key", _ if isinstance(request, DSALeafRequest):
            return (request.index_element,)
        case (("index_key" | "index_value"), _) if isinstance(request, SparseIndexLeafRequest):
            return (str(request.stored_index_dtype).removeprefix("torch."),)
        case (("scale" | "key_scale" | "value_scale"), ("mxfp8" | "fp4_mx16")):
            return ("float8_e8m0fnu",)
        case (("scale" | "key_scale" | "value_scale"), "nvfp4"):
            return ("float8_e4m3fn",)
        case (("scale" | "index_scale"), _):
            return ("float32",)
        case "rope", "dsa_fp8_packed":
            return ("bfloat16",)
        case _:
            return (row,)


def layers_with(request: LeafRequest, name: str) -> list[int]:
    """The leaf's layers that have a region of such fields, by its own ids."""
    ids = list(range(request.start_layer, request.end_layer))
    match name, request:
        case "index_value", SparseIndexLeafRequest():
            return list(request.index_value_layer_ids)
        case "index_key", SparseIndexLeafRequest():
            return list(request.index_layer_ids)
        case (
            ("index_key" | "index_scale" | "tail_key" | "tail_score"),
            DSALeafRequest(),
        ) if any(request.skip_topk_layers):
            shared = request.skip_topk_layers
            return [i for i, skips in zip(ids, shared, strict=True) if not skips]
        case _:
            return ids


def rows_to_a_slot(request: LeafRequest, name: str, layer_ids: Sequence[int]) -> int:
    """Rows of these layers to a slot of the device: of index rows and of dense layers one an id."""
    if not isinstance(request, SparseIndexLeafRequest):
        return 1
    main = name in ("key", "value") and set(layer_ids) <= set(request.index_layer_ids)
    return 1 if main else request.host_to_device_ratio


def expected_axes(request: LeafRequest, bench: KVBench, field: Field) -> dict[str, int]:
    """Lengths of the axes of a field that the request decides."""
    packed = 2 if field.element.endswith("_x2") else 1
    match field.name, request:
        case (("key" | "key_scale"), _):
            return _of_side(bench, "key", field, packed)
        case (("value" | "value_scale"), _):
            return _of_side(bench, "value", field, packed)
        case "latent", (MLALeafRequest() | DSALeafRequest()):
            return {"dim": request.kv_lora_rank // packed}
        case "rope", (MLALeafRequest() | DSALeafRequest()):
            return {"dim": request.qk_rope_head_dim // packed}
        case (("index_key" | "tail_key" | "tail_score"), DSALeafRequest()):
            return {"dim": request.index_head_dim}
        case (("index_key" | "index_value"), SparseIndexLeafRequest()):
            return {"dim": request.idx_head_dim}
        case _:
            return {}


def _of_side(bench: KVBench, side: Side, field: Field, packed: int) -> dict[str, int]:
    heads, width = bench.row_shape(side)
    if not field.name.endswith("_scale"):
        return {"head": heads, "dim": width // packed}
    block = 32 if bench.request.quant_scheme == "mxfp8" else 16
    return {"head": heads, "group": width // block}


def inner_strides(request: LeafRequest, field: Field, bench: KVBench) -> Mapping[str, Offset]:
    """Where each step along an axis has to be, by the axis's name; of keys and values by head.

    Rows of `nhd` may have room between one another, as those of an envelope have: of theirs the
    token is left out.
    """
    if field.name in ("key_scale", "value_scale") and isinstance(request, MHALeafRequest):
        return _scale_strides(request, field)
    if field.name == "index_key" and isinstance(request, DSALeafRequest):
        return _index_strides(request)
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


def _index_strides(request: DSALeafRequest) -> Mapping[str, Offset]:
    """Of fp8 index keys in tiles of 16 bytes of 16 keys each; others may lie as they will."""
    if request.index_layout != "preshuffled":
        return {}
    tile, width = 16, request.index_head_dim
    return {"token": _blocked(tile, tile * width, tile), "dim": _blocked(tile, tile * tile, 1)}


def _scale_strides(request: MHALeafRequest, field: Field) -> Mapping[str, Offset]:
    """Of block scales, a byte each: by token, or interleaved as `BlockScaled` says."""
    groups = next(axis.size for axis in field.axes if axis.name == "group")
    if request.block_scale_layout != "interleaved":
        return _steps(head=groups, group=1)
    page = request.page_size
    chunks = page // _ATOM
    interleaved = partial(_interleaved, chunks=chunks, groups=groups)
    return _steps(head=page * groups, group=1) | {"token": interleaved}


def _interleaved(token: int, *, chunks: int, groups: int) -> int:
    chunk, place = divmod(token, _ATOM)
    return (place * chunks + chunk) * groups


def _steps(**strides: int) -> dict[str, Offset]:
    return {name: partial(mul, stride) for name, stride in strides.items()}


def _blocked(block: int, outer: int, inner: int) -> Offset:
    return lambda i: i // block * outer + i % block * inner
