"""The reference leaf for a request: what the in-tree CPU platform builds, and vendors wrap."""

from __future__ import annotations

from kvproto.debug import maybe_validate
from kvproto.protocols import Declined, LeafRequest, MHALeafRequest, MLALeafRequest

from .mha import MHALeaf

__all__ = ["build_reference_leaf"]


def build_reference_leaf(request: LeafRequest, /) -> MHALeaf | Declined:
    """A reference leaf that holds what is asked for, or why there is none.

    With `KVPROTO_DEBUG=1` in the environment its calls are validated (see `kvproto.debug`).

    :raises ValueError: for geometry no leaf can have.
    """
    match request:
        case MHALeafRequest(layout="nhd", quant_scheme="none" | "fp8_scaled"):
            leaf = MHALeaf(
                size=request.size,
                page_size=request.page_size,
                dtype=request.dtype,
                head_num=request.head_num,
                head_dim=request.head_dim,
                v_head_dim=request.v_head_dim,
                layer_num=request.layer_num,
                device=request.device,
                start_layer=request.start_layer,
                enable_memory_saver=request.enable_memory_saver,
            )
            return maybe_validate(leaf)
        case MHALeafRequest():
            return Declined(
                f"no reference MHA leaf with layout={request.layout!r} and "
                f"quant_scheme={request.quant_scheme!r}; built: 'nhd' with 'none' or 'fp8_scaled'"
            )
        case MLALeafRequest():
            return Declined("no reference leaf for latent rows (MLA) yet; built: MHA in NHD layout")
