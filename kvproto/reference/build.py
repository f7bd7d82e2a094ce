"""The reference leaf for a request: what the in-tree CPU platform builds, and vendors wrap."""

from __future__ import annotations

from typing import overload

from kvproto.debug import maybe_validate
from kvproto.protocols import (
    Declined,
    DSALeafRequest,
    LeafRequest,
    MHALeafRequest,
    MLALeafRequest,
)

from .dsa import DSALeaf
from .mha import MHALeaf
from .mla import MLALeaf

__all__ = ["build_reference_leaf"]


@overload
def build_reference_leaf(request: MHALeafRequest, /) -> MHALeaf | Declined: ...
@overload
def build_reference_leaf(request: DSALeafRequest, /) -> DSALeaf | Declined: ...
@overload
def build_reference_leaf(request: MLALeafRequest, /) -> MLALeaf | Declined: ...
@overload
def build_reference_leaf(request: LeafRequest, /) -> MHALeaf | MLALeaf | Declined: ...
def build_reference_leaf(request: object, /) -> MHALeaf | MLALeaf | Declined:
    """A reference leaf that holds what is asked for, or why there is none.

    With `KVPROTO_DEBUG=1` in the environment its calls are validated (see `kvproto.debug`).

    :raises ValueError: for geometry no leaf can have.
    """
    match request:
        case MHALeafRequest(layout="nhd", quant_scheme="none" | "fp8_scaled"):
            return maybe_validate(MHALeaf(**request.keywords()))
        case MLALeafRequest(layout="latent_rows", quant_scheme="none" | "fp8_scaled"):
            return maybe_validate(MLALeaf(**request.keywords()))
        case DSALeafRequest(layout="latent_rows", quant_scheme="none" | "dsa_fp8_packed"):
            return maybe_validate(DSALeaf(**request.keywords()))
        case MHALeafRequest():
            built = "'nhd' with 'none' or 'fp8_scaled'"
            return _declined("MHA", request, built)
        case MLALeafRequest():
            return _declined("MLA", request, "'latent_rows' with 'none' or 'fp8_scaled'")
        case DSALeafRequest():
            return _declined("DSA", request, "'latent_rows' with 'none' or 'dsa_fp8_packed'")
        case _:  # whoever calls may know more kinds of requests than there are of leaves
            return Declined(f"{type(request).__name__} is no request for a leaf")


def _declined(family: str, request: LeafRequest, built: str) -> Declined:
    return Declined(
        f"no reference {family} leaf with layout={request.layout!r} and "
        f"quant_scheme={request.quant_scheme!r}; built: {built}"
    )
