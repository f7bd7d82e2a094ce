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
            return Declined("latent rows are not built yet")
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


def _declined(family: str, request: LeafRequest, built: str) -> Declined:
    return Declined(
        f"no {family} leaf of an Ascend device with layout={request.layout!r} and "
        f"quant_scheme={request.quant_scheme!r}; built: {built}"
    )
