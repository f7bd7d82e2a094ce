"""The reference leaf for a request: what the in-tree CPU platform builds, and vendors wrap."""

from __future__ import annotations

from typing import TypeAlias, overload

from kvproto.debug import maybe_validate
from kvproto.protocols import (
    Declined,
    DSALeafRequest,
    KeyOnlyLeafRequest,
    LeafRequest,
    MHALeafRequest,
    MLALeafRequest,
    NoOpLeafRequest,
    SparseIndexLeafRequest,
)

from .dsa import DSALeaf
from .dsa_pooled import dsa_leaf
from .dsa_subset import SubsetDSALeaf
from .envelope_layout import envelope_misfit
from .fp4 import FP4Leaf
from .key_only import KeyOnlyLeaf
from .mha import MHALeaf
from .mla import MLALeaf
from .mla_fp4 import MLAFP4Leaf
from .mxfp8 import MXFP8Leaf
from .noop import NoOpLeaf
from .nvfp4 import NVFP4Leaf
from .page_envelope import PageEnvelopeLeaf
from .row_layouts import LAYOUTS, RowLayoutName, misfit
from .sparse_index import SparseIndexLeaf
from .sparse_subset import SubsetSparseLeaf

__all__ = ["build_reference_leaf"]


MHALeaves: TypeAlias = MHALeaf | MXFP8Leaf | FP4Leaf | NVFP4Leaf
MLALeaves: TypeAlias = MLALeaf | MLAFP4Leaf
BareLeaves: TypeAlias = KeyOnlyLeaf | NoOpLeaf
AnyLeaf: TypeAlias = MHALeaves | MLALeaves | SparseIndexLeaf | BareLeaves


@overload
def build_reference_leaf(request: MHALeafRequest, /) -> MHALeaves | Declined: ...
@overload
def build_reference_leaf(request: DSALeafRequest, /) -> DSALeaf | Declined: ...
@overload
def build_reference_leaf(request: MLALeafRequest, /) -> MLALeaves | Declined: ...
@overload
def build_reference_leaf(request: SparseIndexLeafRequest, /) -> SparseIndexLeaf | Declined: ...
@overload
def build_reference_leaf(request: KeyOnlyLeafRequest, /) -> KeyOnlyLeaf | Declined: ...
@overload
def build_reference_leaf(request: NoOpLeafRequest, /) -> NoOpLeaf | Declined: ...
@overload
def build_reference_leaf(
    request: LeafRequest, /
) -> MHALeaves | MLALeaves | SparseIndexLeaf | Declined: ...
def build_reference_leaf(request: object, /) -> AnyLeaf | Declined:
    """A reference leaf that holds what is asked for, or why there is none.

    With `KVPROTO_DEBUG=1` in the environment its calls are validated (see `kvproto.debug`).

    :raises ValueError: for geometry no leaf can have.
    """
    match request:
        case MHALeafRequest():
            return _mha(request)
        case MLALeafRequest():
            return _mla(request)
        case DSALeafRequest():
            return _indexed(request)
        case SparseIndexLeafRequest():
            return _with_index_rows(request)
        case KeyOnlyLeafRequest() | NoOpLeafRequest():
            return _bare(request)
        case _:  # whoever calls may know more kinds of requests than there are of leaves
            return Declined(f"{type(request).__name__} is no request for a leaf")


def _bare(request: KeyOnlyLeafRequest | NoOpLeafRequest) -> BareLeaves | Declined:
    plain = "'nhd' with 'none' or 'fp8_scaled'"
    match request:
        case KeyOnlyLeafRequest(layout="nhd", quant_scheme="none" | "fp8_scaled"):
            return maybe_validate(KeyOnlyLeaf(**request.keywords()))
        case NoOpLeafRequest(quant_scheme="none" | "fp8_scaled"):
            return maybe_validate(NoOpLeaf(**request.keywords()))
        case KeyOnlyLeafRequest():
            return _declined("key-only", request, plain)
        case NoOpLeafRequest(quant_scheme=scheme):
            return Declined(f"no reference leaf without rows with quant_scheme={scheme!r}")


def _indexed(request: DSALeafRequest) -> DSALeaf | Declined:
    match request:
        case DSALeafRequest(page_shards=shards) if shards is not None:
            return Declined(f"no reference leaf of one of {shards.shard_size} ranks' pages")
        case DSALeafRequest(index_kpool=pooled, host_to_device_ratio=ratio) if (
            pooled > 1 and ratio > 1
        ):
            return Declined(
                f"no reference leaf with index_kpool={pooled} and host_to_device_ratio={ratio}"
            )
        case DSALeafRequest(has_index_scales=False):
            return Declined(f"no reference DSA leaf with index keys in {request.index_dtype}")
        case DSALeafRequest(
            layout="latent_rows", quant_scheme="none" | "fp8_scaled" | "dsa_fp8_packed"
        ):
            build = dsa_leaf if request.host_to_device_ratio == 1 else SubsetDSALeaf
            return maybe_validate(build(**request.keywords()))
        case _:
            return _declined(
                "DSA", request, "'latent_rows' with 'none', 'fp8_scaled' or 'dsa_fp8_packed'"
            )


def _with_index_rows(request: SparseIndexLeafRequest) -> SparseIndexLeaf | Declined:
    match request:
        case SparseIndexLeafRequest(layout="nhd", quant_scheme="none" | "fp8_scaled"):
            build = SparseIndexLeaf if request.host_to_device_ratio == 1 else SubsetSparseLeaf
            return maybe_validate(build(**request.keywords()))
        case _:
            return _declined("sparse-index", request, "'nhd' with 'none' or 'fp8_scaled'")


def _mha(request: MHALeafRequest) -> MHALeaves | Declined:
    keywords = request.keywords()
    match request:
        case MHALeafRequest(
            layout="nhd" | "hnd" | "paged_nhd" | "vectorized_5d" as layout,
            quant_scheme="none" | "fp8_scaled",
        ):
            return _rows(request, layout)
        case MHALeafRequest(layout="page_envelope", quant_scheme="none" | "fp8_scaled"):
            return _envelopes(request)
        case MHALeafRequest(layout="nhd", quant_scheme="mxfp8"):
            scales = request.block_scale_layout
            return maybe_validate(MXFP8Leaf(**keywords, scale_layout=scales))
        case MHALeafRequest(layout="nhd", quant_scheme="fp4_mx16"):
            return maybe_validate(FP4Leaf(**keywords))
        case MHALeafRequest(layout="nhd", quant_scheme="nvfp4"):
            return maybe_validate(NVFP4Leaf(**keywords))
        case _:
            plain = ", ".join(map(repr, (*LAYOUTS, "page_envelope")))
            scaled = "'nhd' with 'mxfp8', 'fp4_mx16' or 'nvfp4'"
            built = f"{plain} with 'none' or 'fp8_scaled', and {scaled}"
            return _declined("MHA", request, built)


def _mla(request: MLALeafRequest) -> MLALeaves | Declined:
    match request:
        case MLALeafRequest(page_shards=shards) if shards is not None:
            return Declined(f"no reference leaf of one of {shards.shard_size} ranks' pages")
        case MLALeafRequest(layout="latent_rows", quant_scheme="none" | "fp8_scaled"):
            return maybe_validate(MLALeaf(**request.keywords()))
        case MLALeafRequest(layout="latent_rows", quant_scheme="fp4_mx16"):
            return maybe_validate(MLAFP4Leaf(**request.keywords()))
        case _:
            built = "'latent_rows' with 'none', 'fp8_scaled' or 'fp4_mx16'"
            return _declined("MLA", request, built)


def _rows(request: MHALeafRequest, layout: RowLayoutName) -> MHALeaf | Declined:
    widths = request.head_dim, request.value_head_dim
    if reason := misfit(layout, request.page_size, widths, request.dtype.itemsize):
        return Declined(reason)
    return maybe_validate(MHALeaf(**request.keywords()))


def _envelopes(request: MHALeafRequest) -> PageEnvelopeLeaf | Declined:
    widths = request.head_dim, request.value_head_dim
    if reason := envelope_misfit(request.head_num, widths, request.dtype.itemsize):
        return Declined(reason)
    return maybe_validate(PageEnvelopeLeaf(**request.keywords()))


def _declined(family: str, request: LeafRequest | KeyOnlyLeafRequest, built: str) -> Declined:
    return Declined(
        f"no reference {family} leaf with layout={request.layout!r} and "
        f"quant_scheme={request.quant_scheme!r}; built: {built}"
    )
