"""How many bytes a request asks for: the arithmetic that plans and built pools must agree on."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any, assert_never

from .bare_requests import NoOpLeafRequest
from .composite_requests import HybridPoolRequest, SWAPoolRequest
from .head_requests import MHALeafRequest, SparseIndexLeafRequest
from .latent_requests import DSALeafRequest, MLALeafRequest
from .ring_requests import SWARingPoolRequest

if TYPE_CHECKING:
    from .composite_requests import PoolRequest, StatePoolRequest
    from .requests import LeafRequest

__all__ = ["bytes_of_pool", "bytes_of_state", "bytes_per_state_slot", "bytes_per_token"]

ENVELOPE_ALIGNMENT = 32
"""Bytes of which the entry of a token in an envelope is a multiple."""


def bytes_per_token(request: LeafRequest | NoOpLeafRequest) -> int:
    """Bytes that one token slot takes in all layers of the leaf, scales and index keys included.

    A leaf allocates this many for each of its `size` slots and for each of the reserved page.
    Of an index key that several tokens share it is a token's part, rounded up; rings of requests
    are not a token's. Where the device has a row for one of several ids, what those ids keep is
    counted with the row, and the reserved page is that of one id a slot.
    """
    match request:
        case NoOpLeafRequest():
            return 0
        case MHALeafRequest():
            elements = request.head_num * (request.head_dim + request.value_head_dim)
            # The workspace of 8-bit rows is one for all layers.
            workspace = elements if request.quant_scheme == "nvfp4" and request.layer_num else 0
            rows = request.layer_num * _row_bytes(request, elements) + workspace
            return _padded(rows) if request.layout == "page_envelope" else rows
        case MLALeafRequest():
            elements = request.kv_lora_rank + request.qk_rope_head_dim
            return request.layer_num * _row_bytes(request, elements)
        case DSALeafRequest():
            rows = request.layer_num * request.kv_cache_dim * request.dtype.itemsize
            keys = _index_bytes(request) * request.host_to_device_ratio * request.index_spans
            return rows + -(-keys // request.index_kpool)
        case SparseIndexLeafRequest():
            by_row, by_id = _sparse_bytes(request)
            return by_row + by_id * request.host_to_device_ratio
        case _:
            assert_never(request)


def _padded(entry: int) -> int:
    """Bytes of an envelope's entry, from one token's to the next."""
    return -(-entry // ENVELOPE_ALIGNMENT) * ENVELOPE_ALIGNMENT


def _row_bytes(request: LeafRequest, elements: int) -> int:
    """Bytes of so many elements, block scales included."""
    match request.quant_scheme:
        case "mxfp8":
            return elements + elements // 32
        case "fp4_mx16" | "nvfp4":
            return elements // 2 + elements // 16
        case _:
            return elements * request.dtype.itemsize


def bytes_per_state_slot(request: StatePoolRequest) -> int:
    """Bytes of one request's state in all recurrent layers, speculative scratch not counted."""
    conv = sum(prod(shape) for shape in request.conv_state_shape) * request.conv_dtype.itemsize
    temporal = prod(request.temporal_state_shape) * request.ssm_dtype.itemsize
    return len(request.mamba_layer_ids) * (conv + temporal)


def bytes_of_state(request: StatePoolRequest) -> int:
    """Bytes of a state pool: every slot, the reserved one, and the scratch of draft tokens."""
    slot = bytes_per_state_slot(request)
    scratch = 0
    if request.speculative_num_draft_tokens is not None:
        rows = request.size if request.spec_state_size is None else request.spec_state_size
        scratch = (rows + 1) * request.speculative_num_draft_tokens * slot
    return (request.size + 1) * slot + scratch


def bytes_of_pool(request: PoolRequest | SWARingPoolRequest | NoOpLeafRequest) -> int:
    """Bytes of a leaf, or of both parts of a composite, reserved pages and slots included.

    The page of zeros that stands for rows which nobody keeps is no row, and not counted.
    """
    match request:
        case SWARingPoolRequest():
            return bytes_of_pool(request.pair)
        case SWAPoolRequest():
            return bytes_of_pool(request.full) + bytes_of_pool(request.window)
        case HybridPoolRequest():
            return bytes_of_pool(request.full) + bytes_of_state(request.state)
        case SparseIndexLeafRequest():
            by_row, by_id = _sparse_bytes(request)
            return by_row * (request.size + request.page_size) + by_id * request.id_slots
        case DSALeafRequest():
            alone = replace(request, index_kpool=1, host_to_device_ratio=1, dcp_size=1)
            return _keyed_bytes(request, bytes_per_token(alone) - _index_bytes(request))
        case MLALeafRequest():
            rows = bytes_per_token(request) * (request.size + request.page_size)
            return rows + _gathered_bytes(request)
        case _:
            return bytes_per_token(request) * (request.size + request.page_size)


def _index_bytes(request: DSALeafRequest) -> int:
    """Bytes of an index key and its scale, in all layers that have some."""
    keyed = request.layer_num - sum(request.skip_topk_layers)
    return keyed * request.index_key_bytes


def _keyed_bytes(request: DSALeafRequest, row_bytes: int) -> int:
    """Bytes of rows, index keys and rings of raw keys and scores in bf16."""
    slots = request.size + request.page_size
    keyed = request.layer_num - sum(request.skip_topk_layers)
    ring = request.tail_rows * request.tail_length * request.index_head_dim * 2
    return (
        _gathered_bytes(request)
        + row_bytes * slots
        + _index_bytes(request) * (request.index_slots // request.index_kpool)
        + (2 * keyed * ring)
    )


def _sparse_bytes(request: SparseIndexLeafRequest) -> tuple[int, int]:
    """Bytes of a slot of the device in all layers, and of an id where ids are more than those."""
    main = 2 * request.head_num * request.head_dim * request.dtype.itemsize
    row = request.idx_head_dim * request.stored_index_dtype.itemsize
    sparse = len(request.index_layer_ids)
    dense = request.layer_num - sparse
    index = (sparse + len(request.index_value_layer_ids)) * row
    return sparse * main, dense * main + index


def _gathered_bytes(request: MLALeafRequest | DSALeafRequest) -> int:
    """Bytes of the rows, with an index key each, that pages of other ranks are gathered into."""
    if request.page_shards is None:
        return 0
    whole = replace(request, layer_num=1, page_shards=None, **_with_keys(request))
    return 2 * request.page_shards.scratch_rows * bytes_per_token(whole)


def _with_keys(request: MLALeafRequest | DSALeafRequest) -> dict[str, Any]:
    return {"skip_topk_layers": ()} if isinstance(request, DSALeafRequest) else {}
