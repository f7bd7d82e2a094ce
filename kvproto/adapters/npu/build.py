"""A leaf for a request, or why an Ascend device has none."""

from __future__ import annotations

from typing import TypeVar

import torch

from kvproto.debug import maybe_validate
from kvproto.protocols import (
    Declined,
    DSALeafRequest,
    KVLeaf,
    LeafRequest,
    MHALeafRequest,
    MLALeafRequest,
    SparseIndexLeafRequest,
)

from .dsa import NPUDSALeaf, NPUScaledDSALeaf
from .kept import no_element
from .mha import NPUMHALeaf
from .mla import ORDERS, NPUMLALeaf
from .planes import misfit
from .sparse import NPUSparseIndexLeaf

__all__ = ["build_leaf", "indexed_leaf"]

_Indexed = TypeVar("_Indexed", bound=NPUDSALeaf | NPUScaledDSALeaf)


def build_leaf(request: LeafRequest, /) -> KVLeaf | Declined:
    """A leaf in planes that holds what is asked for, its buffers allocated and zero.

    With `KVPROTO_DEBUG=1` in the environment its calls are validated (see `kvproto.debug`).

    :raises ValueError: for geometry no leaf can have.
    """
    if reason := no_element(request.dtype):
        return Declined(reason)
    match request:
        case MHALeafRequest():
            return _mha(request)
        case MLALeafRequest():
            return _mla(request)
        case DSALeafRequest():
            return _dsa(request)
        case SparseIndexLeafRequest():
            return _sparse(request)


def _mha(request: MHALeafRequest) -> KVLeaf | Declined:
    match request:
        case MHALeafRequest(layout="nhd" | "paged_nhd", quant_scheme="none" | "fp8_scaled"):
            keywords = request.keywords()
            keywords["kv_cache_layout"] = request.layout  # that of a constructor is another
            return maybe_validate(NPUMHALeaf(**keywords))
        case _:
            return _declined("MHA", request, "'nhd' or 'paged_nhd' with 'none' or 'fp8_scaled'")


def _mla(request: MLALeafRequest) -> KVLeaf | Declined:
    match request:
        case MLALeafRequest(page_shards=shards) if shards is not None:
            return Declined(f"no leaf of one of {shards.shard_size} ranks' pages")
        case MLALeafRequest(
            layout="latent_split" | "latent_split_nz" as layout, quant_scheme="none" | "fp8_scaled"
        ):
            widths = request.kv_lora_rank, request.qk_rope_head_dim
            if reason := misfit(ORDERS[layout], widths, request.dtype.itemsize):
                return Declined(reason)
            return maybe_validate(NPUMLALeaf(**request.keywords(), kv_cache_layout=layout))
        case _:
            built = "'latent_split' or 'latent_split_nz' with 'none' or 'fp8_scaled'"
            return _declined("MLA", request, built)


def _dsa(request: DSALeafRequest) -> KVLeaf | Declined:
    if reason := _beyond(request):
        return Declined(reason)
    match request:
        case DSALeafRequest(layout="latent_split", quant_scheme="none" | "dsa_fp8_packed"):
            build = NPUScaledDSALeaf if request.has_index_scales else NPUDSALeaf
            return maybe_validate(indexed_leaf(build, request))
        case _:
            return _declined("DSA", request, "'latent_split' with 'none' or 'dsa_fp8_packed'")


def indexed_leaf(build: type[_Indexed], request: DSALeafRequest) -> _Indexed:
    """The leaf of that class for a request, whose flags name the layers without index keys."""
    ids = range(request.start_layer, request.end_layer)
    shared = request.skip_topk_layers or (False,) * request.layer_num
    return build(
        size=request.size,
        page_size=request.page_size,
        dtype=request.dtype,
        kv_lora_rank=request.kv_lora_rank,
        qk_rope_head_dim=request.qk_rope_head_dim,
        layer_num=request.layer_num,
        device=request.device,
        index_head_dim=request.index_head_dim,
        enable_memory_saver=request.enable_memory_saver,
        start_layer=request.start_layer,
        indexer_layer_ids=[i for i, shares in zip(ids, shared, strict=True) if not shares],
        kv_cache_dim=request.kv_cache_dim,
    )


def _beyond(request: DSALeafRequest) -> str:
    """What is asked for that leaves of planes do not have; "" for nothing."""
    if request.page_shards is not None:
        return f"no leaf of one of {request.page_shards.shard_size} ranks' pages"
    if request.index_kpool > 1:
        return f"no index keys of {request.index_kpool} tokens each on an Ascend device"
    if request.dcp_size > 1:
        return f"no index keys of the tokens of {request.dcp_size} ranks on an Ascend device"
    if request.host_to_device_ratio > 1:
        return f"no rows for one of {request.host_to_device_ratio} ids on an Ascend device"
    if request.index_layout != "token_rows":
        return f"no index keys that are {request.index_layout} on an Ascend device"
    if request.index_dtype not in (None, torch.float8_e4m3fn, request.dtype):
        return f"index keys in {request.index_dtype} beside rows in {request.dtype}"
    return ""


def _sparse(request: SparseIndexLeafRequest) -> KVLeaf | Declined:
    if request.host_to_device_ratio > 1:
        return Declined(
            f"no rows for one of {request.host_to_device_ratio} ids on an Ascend device"
        )
    if reason := no_element(request.stored_index_dtype):
        return Declined(reason)
    match request:
        case SparseIndexLeafRequest(layout="nhd" | "paged_nhd", quant_scheme="none" | "fp8_scaled"):
            keywords = request.keywords()
            keywords["kv_cache_layout"] = request.layout
            return maybe_validate(NPUSparseIndexLeaf(**keywords))
        case _:
            built = "'nhd' or 'paged_nhd' with 'none' or 'fp8_scaled'"
            return _declined("sparse-index", request, built)


def _declined(family: str, request: LeafRequest, built: str) -> Declined:
    return Declined(
        f"no {family} leaf of an Ascend device with layout={request.layout!r} and "
        f"quant_scheme={request.quant_scheme!r}; built: {built}"
    )
