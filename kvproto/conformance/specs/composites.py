"""Composites, and the state pools beside them: odd layer ids, and leaves that differ."""

from __future__ import annotations

from dataclasses import replace

import torch

from kvproto.protocols import (
    DSALeafRequest,
    HybridPoolRequest,
    LeafRequest,
    MHALeafRequest,
    MLALeafRequest,
    StatePoolRequest,
    SWAPoolRequest,
    SWARingPoolRequest,
)

from .spec import Spec

__all__ = ["COMPOSITE_SPECS"]


def _mha(
    pages: int,
    page_size: int,
    layers: int,
    *,
    heads: int = 2,
    widths: tuple[int, int | None] = (8, None),
    dtype: torch.dtype = torch.bfloat16,
) -> MHALeafRequest:
    return MHALeafRequest(
        size=pages * page_size,
        page_size=page_size,
        dtype=dtype,
        quant_scheme="fp8_scaled" if dtype.itemsize == 1 else "none",
        head_num=heads,
        head_dim=widths[0],
        v_head_dim=widths[1],
        layer_num=layers,
        device="cpu",
    )


def _mla(
    pages: int, page_size: int, layers: int, dtype: torch.dtype = torch.bfloat16
) -> MLALeafRequest:
    return MLALeafRequest(
        size=pages * page_size,
        page_size=page_size,
        dtype=dtype,
        quant_scheme="fp8_scaled" if dtype.itemsize == 1 else "none",
        kv_lora_rank=16,
        qk_rope_head_dim=8,
        layer_num=layers,
        device="cpu",
    )


def _dsa(pages: int, page_size: int, layers: int, *, group: int = 1) -> DSALeafRequest:
    return DSALeafRequest(
        size=pages * page_size,
        page_size=page_size,
        dtype=torch.bfloat16,
        kv_lora_rank=16,
        qk_rope_head_dim=8,
        index_head_dim=128,
        index_kpool=group,
        index_kpool_compress=group > 1,
        max_running_requests=None if group == 1 else 3,
        layer_num=layers,
        device="cpu",
    )


def _state(
    *layer_ids: int,
    conv: tuple[tuple[int, ...], ...] = ((2, 4),),
    temporal: tuple[int, ...] = (2, 2, 2),
    size: int = 3,
    dtype: torch.dtype = torch.float32,
    draft_tokens: int | None = None,
    draft_rows: int | None = None,
) -> StatePoolRequest:
    return StatePoolRequest(
        size=size,
        mamba_layer_ids=layer_ids,
        conv_state_shape=conv,
        temporal_state_shape=temporal,
        conv_dtype=dtype,
        ssm_dtype=torch.float32,
        speculative_num_draft_tokens=draft_tokens,
        spec_state_size=draft_rows,
        device="cpu",
    )


def _pair(
    name: str, full: LeafRequest, window: LeafRequest, full_ids: range, window_ids: range
) -> Spec:
    request = SWAPoolRequest(
        full=full,
        window=window,
        full_attention_layer_ids=tuple(full_ids),
        swa_attention_layer_ids=tuple(window_ids),
    )
    return Spec(f"swa-{name}", request)


def _rings(
    name: str, full: LeafRequest, window: LeafRequest, ids: tuple[range, range], ring: int
) -> Spec:
    pair = SWAPoolRequest(
        full=full,
        window=window,
        full_attention_layer_ids=tuple(ids[0]),
        swa_attention_layer_ids=tuple(ids[1]),
    )
    return Spec(f"rings-{name}", SWARingPoolRequest(pair=pair, swa_req_ring_size=ring))


def _hybrid(name: str, full: LeafRequest, state: StatePoolRequest, *ids: int) -> Spec:
    request = HybridPoolRequest(full=full, state=state, full_attention_layer_ids=ids)
    return Spec(f"hybrid-{name}", request)


_NONE = range(0)
_FP8 = torch.float8_e4m3fn
_FP8_FULL = _mha(4, 16, 1, heads=1, widths=(16, 8), dtype=_FP8)
_WIDE = _mha(6, 16, 1, heads=1, widths=(16, 8))

COMPOSITE_SPECS: tuple[Spec, ...] = (
    _pair("page1", _mha(16, 1, 2), _mha(8, 1, 2), range(0, 4, 2), range(1, 4, 2)),
    _pair("page4-window-first", _mha(6, 4, 2), _mha(3, 4, 1), range(9, 11), range(8, 9)),
    _pair("page16-two-shapes", _WIDE, _mha(3, 16, 2, heads=3), range(4, 5), range(5, 7)),
    _pair("page4-all-full", _mha(4, 4, 2), _mha(2, 4, 0), range(2, 4), _NONE),
    _pair("page4-all-window", _mha(6, 4, 0), _mha(3, 4, 2), _NONE, range(6, 8)),
    _pair("page16-latent", _mla(4, 16, 1), _mla(3, 16, 2), range(3, 4), range(1, 3)),
    _pair("page64-index-keys", _dsa(4, 64, 2), _mla(2, 64, 1), range(2), range(2, 3)),
    _pair("page16-fp8", _FP8_FULL, _mha(3, 16, 2, dtype=_FP8), range(3, 4), range(4, 6)),
    _pair("page128", _mha(3, 128, 1), _mha(2, 128, 1), range(5, 6), range(6, 7)),
    _rings("page1", _mha(11, 1, 2), _mha(11, 1, 2), (range(0, 4, 2), range(1, 4, 2)), 4),
    _rings("page4-uneven", _mha(7, 4, 1), _mha(7, 4, 2, heads=3), (range(5, 6), range(3, 5)), 8),
    _rings("page16-latent", _mla(5, 16, 1), _mla(5, 16, 1), (range(2, 3), range(3, 4)), 32),
    _hybrid("page1", _mha(13, 1, 2), _state(0, 2), 1, 3),
    _hybrid("page16-odd-ids", _mha(4, 16, 3, heads=1, widths=(16, 8)), _state(8, 11), 10, 13, 17),
    _hybrid("page4-latent", _mla(6, 4, 1), _state(4, 6), 5),
    _hybrid("page64-fp8-latent", _mla(3, 64, 2, _FP8), _state(2), 1, 4),
    _hybrid("page16-index-keys", _dsa(4, 16, 2), _state(0), 3, 7),
    _hybrid("page4-side-by-side", _mha(5, 4, 2), _state(6, 7), 6, 7),
    _hybrid("page64-index-keys", _dsa(2, 64, 2), _state(1), 0, 2),
    _hybrid("page16-tails", _dsa(4, 16, 2, group=2), _state(0), 3, 7),
    _hybrid("page4-state-only", _mha(4, 4, 0), _state(4, 5)),
    Spec("state-two-layers", _state(0, 2)),
    Spec(
        "state-odd-shapes",
        _state(5, 9, 12, conv=((3, 5), (7, 1)), temporal=(1, 3), size=5, dtype=torch.bfloat16),
    ),
    Spec("state-drafts", _state(1, 2, conv=((2, 4), (3, 1)), draft_tokens=4, draft_rows=2)),
    Spec(
        "state-sliced",
        replace(_state(2, 3, conv=((2, 6),)), conv_slice_axis=1, conv_shard_groups=(4, 2)),
    ),
    Spec("state-conv-only", _state(3, 4, temporal=(0,))),
)
"""Window pairs, hybrids and recurrent state."""
