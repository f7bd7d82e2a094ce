"""Leaves under block scales that are asked for by request, and those that are refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kvproto.protocols import (
    Declined,
    DSALeafRequest,
    MHALeafRequest,
    MLALeafRequest,
    bytes_of_pool,
)
from kvproto.reference import FP4Leaf, MLAFP4Leaf, MXFP8Leaf, NVFP4Leaf, build_reference_leaf
from tests.reference.block_scaled import E2M1, E4M3, LATENT, asked, fp4, mxfp8, nvfp4


@pytest.mark.parametrize("scheme", ["mxfp8", "fp4_mx16", "nvfp4"])
@pytest.mark.parametrize("layers", [0, 1, 3])
def test_a_request_knows_the_bytes_that_are_allocated(scheme: str, layers: int) -> None:
    dtype = E4M3 if scheme == "mxfp8" else E2M1
    request = MHALeafRequest(**asked(quant_scheme=scheme, dtype=dtype, layer_num=layers))
    leaf = build_reference_leaf(request)
    assert not isinstance(leaf, Declined)
    assert bytes_of_pool(request) == sum(leaf.get_kv_size_bytes())


@pytest.mark.parametrize("rope", [0, 16])
def test_a_latent_request_knows_its_bytes(rope: int) -> None:
    request = MLALeafRequest(**_latent(qk_rope_head_dim=rope), quant_scheme="fp4_mx16")
    leaf = build_reference_leaf(request)
    assert isinstance(leaf, MLAFP4Leaf)
    assert bytes_of_pool(request) == leaf.get_kv_size_bytes()
    assert sum(region.nbytes for region in leaf.buffer_regions()) == leaf.get_kv_size_bytes()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dtype": torch.bfloat16}, r"dtype=torch.bfloat16: 'mxfp8' stores torch.float8_e4m3fn"),
        ({"dtype": torch.float8_e5m2}, r"'mxfp8' stores torch.float8_e4m3fn"),
        ({"head_dim": 48}, r"head_dim=48: 'mxfp8' scales whole blocks of 32"),
        ({"v_head_dim": 16}, r"v_head_dim=16: 'mxfp8' scales whole blocks of 32"),
        ({"scale_layout": "none"}, r"scale_layout='none': quant_scheme='mxfp8' keeps block scales"),
        (
            {"scale_layout": "interleaved", "page_size": 16},
            r"scale_layout='interleaved': page_size=16 is not whole atoms of 32 tokens",
        ),
        (
            {"scale_layout": "token_rows", "quant_scheme": "fp8_scaled"},
            r"scale_layout='token_rows': quant_scheme='fp8_scaled' keeps none",
        ),
        (
            {"scale_layout": "interleaved", "quant_scheme": "nvfp4", "dtype": E2M1},
            r"quant_scheme='nvfp4' keeps its scales in 'token_rows'",
        ),
        (
            {"quant_scheme": "fp8_scaled", "dtype": E2M1},
            r"its schemes are 'fp4_mx16' and 'nvfp4'",
        ),
        ({"quant_scheme": "fp4_mx16"}, r"'fp4_mx16' stores torch.float4_e2m1fn_x2"),
        (
            {"quant_scheme": "nvfp4", "dtype": E2M1, "head_dim": 24},
            r"head_dim=24: 'nvfp4' scales whole blocks of 16",
        ),
    ],
)
def test_a_request_that_no_leaf_can_hold_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MHALeafRequest(**asked(**changes))


@pytest.mark.parametrize(
    ("make", "changes", "message"),
    [
        (mxfp8, {"dtype": torch.bfloat16}, "MXFP8 rows are torch.float8_e4m3fn"),
        (mxfp8, {"head_dim": 48}, "head_dim=48: MXFP8 scales whole blocks of 32"),
        (mxfp8, {"scale_layout": "none"}, "say where they lie"),
        (mxfp8, {"scale_layout": "interleaved", "page_size": 16}, "page_size=16: interleaved"),
        (fp4, {"dtype": E4M3}, "FP4 rows are torch.float4_e2m1fn_x2"),
        (nvfp4, {"v_head_dim": 8}, "v_head_dim=8: FP4 scales whole blocks of 16"),
        (fp4, {"end_layer": 6}, "end_layer=6"),
    ],
)
def test_a_constructor_refuses_what_cannot_be(
    make: Any, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        make(**changes)


@pytest.mark.parametrize(
    ("scheme", "dtype", "cls"),
    [("mxfp8", E4M3, MXFP8Leaf), ("fp4_mx16", E2M1, FP4Leaf), ("nvfp4", E2M1, NVFP4Leaf)],
)
def test_a_request_is_built(scheme: str, dtype: torch.dtype, cls: type) -> None:
    leaf = build_reference_leaf(MHALeafRequest(**asked(quant_scheme=scheme, dtype=dtype)))
    assert type(leaf) is cls
    assert not isinstance(leaf, Declined)
    assert leaf.pool_traits.quant_scheme == scheme


def test_what_is_not_built_is_declined_by_name() -> None:
    latent = {k: v for k, v in LATENT.items() if k != "end_layer"}
    built = build_reference_leaf(MLALeafRequest(**latent, quant_scheme="fp4_mx16"))
    assert isinstance(built, MLAFP4Leaf)
    declined = build_reference_leaf(MLALeafRequest(**latent, quant_scheme="nvfp4"))
    assert isinstance(declined, Declined)
    assert "quant_scheme='nvfp4'" in declined.reason
    sparse = DSALeafRequest(**latent, index_head_dim=16, quant_scheme="fp4_mx16")
    assert isinstance(build_reference_leaf(sparse), Declined)


def test_what_one_scheme_asks_none_of_the_others_has() -> None:
    with pytest.raises(ValueError, match="kv_lora_rank=24: 'fp4_mx16' scales whole blocks of 16"):
        MLALeafRequest(**_latent(kv_lora_rank=24), quant_scheme="fp4_mx16")


def _latent(**changes: Any) -> dict[str, Any]:
    return {k: v for k, v in LATENT.items() if k != "end_layer"} | changes
