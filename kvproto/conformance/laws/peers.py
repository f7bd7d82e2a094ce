"""What two pools must agree on before a page travels between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

from kvproto.protocols import (
    DeclaresRegions,
    Declined,
    DSALeafRequest,
    KVLeaf,
    LeafRequest,
    MHALeafRequest,
    MLALeafRequest,
    QuantScheme,
    ScaleLayout,
    SparseIndexLeafRequest,
    peer_differences,
)

from ..block_codec import is_block_scaled
from ..broken import LawBroken
from ..kv_bench import KVBench
from ..law import has_layers, law
from ..not_asked import NotAsked

_OTHER = {
    torch.bfloat16: torch.float16,
    torch.float16: torch.bfloat16,
    torch.float8_e4m3fn: torch.float8_e5m2,
    torch.float8_e5m2: torch.float8_e4m3fn,
    torch.float8_e4m3fnuz: torch.float8_e4m3fn,
}
"""Element types of the same width, which sizes alone cannot tell apart."""

_OTHER_SCHEME: dict[QuantScheme, QuantScheme] = {"fp4_mx16": "nvfp4", "nvfp4": "fp4_mx16"}


@law(
    "transfer.fingerprint",
    DeclaresRegions,
    KVLeaf,
    applies=lambda request: has_layers(request) and isinstance(request, LeafRequest),
    check="declare what elements mean, not how they are stored, and one field per part of a row",
)
def fingerprint(bench: KVBench) -> None:
    """Pools of one request agree as peers; another dtype, page, layer, width, layout is told."""
    mine = bench.pool.buffer_regions()
    other_size = replace(bench.request, size=bench.request.size + bench.request.page_size)
    for name, request in (("the same", bench.request), ("a larger size", other_size)):
        pool = bench.build(request)
        if not isinstance(pool, Declined):
            found = peer_differences(mine, pool.buffer_regions())
            bench.expect(f"differences to a pool of {name}", expected=[], got=found)
    declined: list[str] = []
    others = list(_others(bench.request))
    for name, request in others:
        pool = bench.build(request)
        if isinstance(pool, Declined):
            declined.append(name)
        elif not peer_differences(mine, pool.buffer_regions()):
            raise LawBroken(
                f"differences to a pool with {name}", expected="at least one", got="none"
            )
    if len(declined) == len(others):
        raise NotAsked("the factory declines every other geometry, so none was compared")
    if declined:
        bench.note = f"declined, so not compared: {', '.join(declined)}"


def _others(request: LeafRequest) -> Iterator[tuple[str, LeafRequest]]:
    page = 2 * request.page_size
    yield f"pages of {page}", replace(request, page_size=page, size=2 * request.size)
    first = request.start_layer + 1
    yield f"layers from {first} on", replace(request, start_layer=first)
    packed = request.quant_scheme == "dsa_fp8_packed"
    blocks = is_block_scaled(request)
    if request.dtype in _OTHER and not (packed or blocks):
        yield f"{_OTHER[request.dtype]}", replace(request, dtype=_OTHER[request.dtype])
    match request:
        case MHALeafRequest(head_num=heads, head_dim=width):
            if heads > 1 and request.page_size > 1 and not blocks:
                other_layout = replace(request, layout="nhd" if request.layout == "hnd" else "hnd")
                yield f"layout {other_layout.layout}", other_layout
            whole = 64 if blocks else 2
            if width % whole == 0 and request.value_head_dim % whole == 0:
                half, v_half = width // 2, request.value_head_dim // 2
                other = replace(request, head_num=2 * heads, head_dim=half, v_head_dim=v_half)
                yield "twice the heads of half the width", other
            yield from _other_scales(request)
        case SparseIndexLeafRequest():
            yield from _other_indexes(request)
        case MLALeafRequest(kv_lora_rank=rank) | DSALeafRequest(kv_lora_rank=rank):
            rope = request.qk_rope_head_dim
            if rope and rank != rope and not packed:
                swapped = replace(request, kv_lora_rank=rope, qk_rope_head_dim=rank)
                yield "latent and rope widths swapped", swapped


def _other_indexes(request: SparseIndexLeafRequest) -> Iterator[tuple[str, LeafRequest]]:
    if not request.index_layer_ids:
        return
    other = _OTHER.get(request.stored_index_dtype)
    if other is not None:
        yield f"index rows in {other}", replace(request, index_dtype=other)
    width = 2 * request.idx_head_dim
    yield f"index rows of {width}", replace(request, idx_head_dim=width)
    if request.index_value_layer_ids:
        bare = replace(request, disable_value_sparse_layer_ids=request.sparse_layer_ids)
        yield "no index values", bare


def _other_scales(request: MHALeafRequest) -> Iterator[tuple[str, LeafRequest]]:
    """The same bytes a page, with scales that mean something else or lie elsewhere."""
    if request.quant_scheme == "mxfp8" and request.page_size % 32 == 0:
        other: ScaleLayout = (
            "token_rows" if request.block_scale_layout == "interleaved" else "interleaved"
        )
        yield f"scale_layout={other!r}", replace(request, scale_layout=other)
    swapped = _OTHER_SCHEME.get(request.quant_scheme)
    if swapped is not None:
        yield f"quant_scheme={swapped!r}", replace(request, quant_scheme=swapped)
