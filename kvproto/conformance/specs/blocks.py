"""Leaves under block scales: pages of all sizes, values of another width than keys."""

from __future__ import annotations

import torch

from kvproto.protocols import (
    HybridPoolRequest,
    MHALeafRequest,
    MLALeafRequest,
    QuantScheme,
    ScaleLayout,
    StatePoolRequest,
    SWAPoolRequest,
)

from .spec import Spec

__all__ = ["BLOCK_SPECS"]


def _leaf(
    scheme: QuantScheme,
    page_size: int,
    layers: range,
    *,
    heads: int = 1,
    widths: tuple[int, int | None] = (32, None),
    pages: int = 3,
    scale_layout: ScaleLayout | None = None,
) -> MHALeafRequest:
    return MHALeafRequest(
        size=pages * page_size,
        page_size=page_size,
        dtype=torch.float8_e4m3fn if scheme == "mxfp8" else torch.float4_e2m1fn_x2,
        quant_scheme=scheme,
        head_num=heads,
        head_dim=widths[0],
        v_head_dim=widths[1],
        layer_num=len(layers),
        start_layer=layers.start,
        device="cpu",
        scale_layout=scale_layout,
    )


def _latent(page_size: int, layers: range, *, rope: int = 16, pages: int = 3) -> MLALeafRequest:
    return MLALeafRequest(
        size=pages * page_size,
        page_size=page_size,
        dtype=torch.float4_e2m1fn_x2,
        quant_scheme="fp4_mx16",
        kv_lora_rank=32,
        qk_rope_head_dim=rope,
        layer_num=len(layers),
        start_layer=layers.start,
        device="cpu",
    )


def _pair(full: MHALeafRequest, window: MHALeafRequest) -> SWAPoolRequest:
    return SWAPoolRequest(
        full=full, window=window, full_attention_layer_ids=(4,), swa_attention_layer_ids=(3, 5)
    )


def _hybrid(full: MHALeafRequest | MLALeafRequest) -> HybridPoolRequest:
    state = StatePoolRequest(
        size=3,
        mamba_layer_ids=(2, 4),
        conv_state_shape=((2, 4),),
        temporal_state_shape=(2, 2, 2),
        conv_dtype=torch.float32,
        ssm_dtype=torch.float32,
        device="cpu",
    )
    return HybridPoolRequest(full=full, state=state, full_attention_layer_ids=(3,))


_ONE, _TWO = range(1), range(2)

BLOCK_SPECS: tuple[Spec, ...] = (
    Spec("mha-mxfp8-page1", _leaf("mxfp8", 1, range(2, 4), heads=2, widths=(64, 32), pages=9)),
    Spec("mha-mxfp8-page16", _leaf("mxfp8", 16, range(5, 6), widths=(32, 64))),
    Spec(
        "mha-mxfp8-page64-interleaved",
        _leaf(
            "mxfp8", 64, range(3, 5), heads=2, widths=(64, 32), pages=2, scale_layout="interleaved"
        ),
    ),
    Spec("mha-mxfp8-page128", _leaf("mxfp8", 128, range(1, 2), widths=(128, None), pages=2)),
    Spec(
        "mha-fp4-mx16-page1", _leaf("fp4_mx16", 1, range(3, 5), heads=2, widths=(32, 16), pages=9)
    ),
    Spec("mha-fp4-mx16-page16", _leaf("fp4_mx16", 16, range(1), widths=(16, 48))),
    Spec(
        "mha-fp4-mx16-page64", _leaf("fp4_mx16", 64, range(2, 4), heads=3, widths=(16, 32), pages=2)
    ),
    Spec("mha-nvfp4-page1", _leaf("nvfp4", 1, range(7, 9), heads=2, widths=(16, 32), pages=9)),
    Spec("mha-nvfp4-page16", _leaf("nvfp4", 16, range(1, 3), widths=(32, 16))),
    Spec("mha-nvfp4-page64", _leaf("nvfp4", 64, range(1), heads=2, widths=(16, None), pages=2)),
    Spec("mha-mxfp8-no-layers", _leaf("mxfp8", 16, range(4, 4))),
    Spec("mla-fp4-mx16-page1", _latent(1, range(4, 6), pages=9)),
    Spec("mla-fp4-mx16-page16", _latent(16, range(1), rope=0)),
    Spec("mla-fp4-mx16-page64", _latent(64, range(2, 4), rope=32, pages=2)),
    Spec(
        "swa-page32-mxfp8",
        _pair(
            _leaf("mxfp8", 32, _ONE, widths=(64, 32), pages=4, scale_layout="interleaved"),
            _leaf("mxfp8", 32, _TWO, heads=2),
        ),
    ),
    Spec(
        "swa-page4-nvfp4",
        _pair(_leaf("nvfp4", 4, _ONE, pages=6), _leaf("nvfp4", 4, _TWO, widths=(16, 32))),
    ),
    Spec(
        "swa-page4-one-side-scaled",
        _pair(
            _leaf("mxfp8", 4, _ONE, pages=6),
            MHALeafRequest(
                size=12,
                page_size=4,
                dtype=torch.float8_e4m3fn,
                quant_scheme="fp8_scaled",
                head_num=2,
                head_dim=8,
                layer_num=2,
                device="cpu",
            ),
        ),
    ),
    Spec("hybrid-page4-fp4-mx16", _hybrid(_leaf("fp4_mx16", 4, _ONE, pages=6))),
    Spec("hybrid-page32-mxfp8", _hybrid(_leaf("mxfp8", 32, _ONE, heads=2, widths=(32, 64)))),
    Spec("hybrid-page4-latent-fp4", _hybrid(_latent(4, _ONE, pages=6))),
)
"""K and V rows, latent rows, and composites over them."""
