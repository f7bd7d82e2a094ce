"""Whether a leaf holds what was asked of it."""

from __future__ import annotations

from kvproto.protocols import (
    DeclaresTraits,
    DSALeafRequest,
    KVLeaf,
    LeafRequest,
    MHALeafRequest,
    MHARows,
    MLALatent,
    MLALeafRequest,
    SparseIndexLeafRequest,
    supports,
)

__all__ = ["differences"]


def differences(request: LeafRequest, leaf: KVLeaf) -> list[str]:
    """What differs, a line each, from what the request asks; nothing for an honest leaf.

    Facts that the leaf does not state are not looked for: geometry by its capabilities, layout
    and scheme by its traits.
    """
    asked: dict[str, object] = {
        "size": request.size,
        "page_size": request.page_size,
        "dtype": request.dtype,
        "layer_num": request.layer_num,
        "start_layer": request.start_layer,
        "end_layer": request.end_layer,
    }
    told: dict[str, object] = {name: getattr(leaf, name) for name in asked}
    asked |= _geometry(request)
    if isinstance(request, MHALeafRequest | SparseIndexLeafRequest) and supports(leaf, MHARows):
        told |= {
            "head_num": leaf.head_num,
            "head_dim": leaf.head_dim,
            "v_head_dim": leaf.v_head_dim,
        }
    if isinstance(request, MLALeafRequest | DSALeafRequest) and supports(leaf, MLALatent):
        told |= {
            "kv_lora_rank": leaf.kv_lora_rank,
            "qk_rope_head_dim": leaf.qk_rope_head_dim,
        }
    if supports(leaf, DeclaresTraits):
        traits = leaf.pool_traits
        told |= {"layout": traits.layout, "quant_scheme": traits.quant_scheme}
    return [
        f"{name} is {told[name]}, asked was {wanted}"
        for name, wanted in asked.items()
        if name in told and told[name] != wanted
    ]


def _geometry(request: LeafRequest) -> dict[str, object]:
    named: dict[str, object] = {"layout": request.layout, "quant_scheme": request.quant_scheme}
    match request:
        case MHALeafRequest():
            return named | {
                "head_num": request.head_num,
                "head_dim": request.head_dim,
                "v_head_dim": request.value_head_dim,
            }
        case SparseIndexLeafRequest():
            return named | {"head_num": request.head_num, "head_dim": request.head_dim}
        case MLALeafRequest() | DSALeafRequest():
            return named | {
                "kv_lora_rank": request.kv_lora_rank,
                "qk_rope_head_dim": request.qk_rope_head_dim,
            }
