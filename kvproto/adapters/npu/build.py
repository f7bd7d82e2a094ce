"""A leaf for a request, or why an Ascend device has none."""

from __future__ import annotations

import torch

from kvproto.debug import maybe_validate
from kvproto.kernels import FP8_DTYPES
from kvproto.protocols import (
    Declined,
    DSALeafRequest,
    KVLeaf,
    LeafRequest,
    MHALeafRequest,
    MLALeafRequest,
    SparseIndexLeafRequest,
)

from .mha import NPUMHALeaf
from .mla import ORDERS, NPUMLALeaf
from .planes import misfit

__all__ = ["build_leaf"]


def build_leaf(request: LeafRequest, /) -> KVLeaf | Declined:
    """A leaf in planes that holds what is asked for, its buffers allocated and zero.

    With `KVPROTO_DEBUG=1` in the environment its calls are validated (see `kvproto.debug`).

    :raises ValueError: for geometry no leaf can have.
    """
    if request.dtype in FP8_DTYPES and request.dtype != torch.float8_e4m3fn:
        return Declined(f"{request.dtype}: fp8 of Ascend devices is float8_e4m3fn")
    match request:
        case MHALeafRequest():
            return _mha(request)
        case MLALeafRequest():
            return _mla(request)
        case DSALeafRequest():
            return Declined("latent rows with index keys are not built yet")
        case SparseIndexLeafRequest():
            return Declined("rows by head with index rows are not built yet")


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


def _declined(family: str, request: LeafRequest, built: str) -> Declined:
    return Declined(
        f"no {family} leaf of an Ascend device with layout={request.layout!r} and "
        f"quant_scheme={request.quant_scheme!r}; built: {built}"
    )
