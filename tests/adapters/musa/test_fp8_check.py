"""The first fp8 leaf has a row read back, and stacks that store it wrong are told apart."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from kvproto.adapters.musa import fp8_check
from kvproto.adapters.musa import platform as fp8_platform
from kvproto.adapters.musa.platform import on_cpu
from kvproto.protocols import (
    Declined,
    DSALeafRequest,
    KVLeaf,
    LeafRequest,
    MHALeafRequest,
    MLALeafRequest,
    SparseIndexLeafRequest,
)
from kvproto.reference import index_pages, latent_format, row_stores
from tests.adapters.musa.shims import (
    Shim,
    drops_the_conversion,
    lacks_the_conversion,
    reads_another_fp8,
)
from tests.kernels.test_fp8 import decode


def asked(dtype: torch.dtype = torch.float8_e4m3fn, device: str = "cpu") -> MHALeafRequest:
    return MHALeafRequest(
        size=64,
        page_size=64,
        dtype=dtype,
        quant_scheme="fp8_scaled" if dtype.itemsize == 1 else "none",
        head_num=2,
        head_dim=16,
        layer_num=1,
        device=device,
    )


LATENT: dict[str, Any] = {
    "size": 64,
    "page_size": 64,
    "layer_num": 1,
    "device": "cpu",
    "kv_lora_rank": 128,
    "qk_rope_head_dim": 32,
}
FP8: dict[str, Any] = {"dtype": torch.float8_e4m3fn}
LATENTS = MLALeafRequest(**LATENT, **FP8, quant_scheme="fp8_scaled")
PACKED = DSALeafRequest(**LATENT, **FP8, quant_scheme="dsa_fp8_packed", index_head_dim=32)
INDEXED = DSALeafRequest(**LATENT, dtype=torch.bfloat16, index_head_dim=32)
SPARSE = SparseIndexLeafRequest(
    size=64,
    page_size=64,
    layer_num=1,
    device="cpu",
    head_num=1,
    head_dim=32,
    idx_head_dim=32,
    dense_layer_ids=(),
    sparse_layer_ids=(0,),
    dtype=torch.bfloat16,
    index_dtype=torch.float8_e4m3fn,
)


def test_the_pattern_is_that_of_the_format() -> None:
    for number, byte in fp8_check._BYTES.items():
        assert decode(byte, torch.float8_e4m3fn) == number
    assert {0x7E, 0xFE, 0x01} <= set(fp8_check._BYTES.values())


@pytest.mark.parametrize(
    ("shim", "said"),
    [
        (drops_the_conversion, "stored 1.0 as 0x00, which is 0x38 in float8_e4m3fn"),
        (lacks_the_conversion, 'cannot be stored on cpu: "copy_kernel" not implemented for'),
        (reads_another_fp8, "read 0x38 as 0.5, which is 1.0 in float8_e4m3fn"),
    ],
)
def test_a_stack_that_stores_fp8_wrong_is_declined(
    shim: Callable[[Tensor, torch.dtype], Tensor | None], said: str
) -> None:
    platform = on_cpu()
    with Shim(shim):
        answer = platform.build_leaf(asked())
        plain = platform.build_leaf(asked(torch.bfloat16))
    assert isinstance(answer, Declined)
    assert said in answer.reason
    assert answer.reason.endswith("update torch_musa and its Triton, or store rows in 16 bits")
    assert "\n" not in answer.reason
    assert isinstance(plain, KVLeaf)
    assert platform.build_leaf(asked()) == answer, "found once, and kept"


def test_without_the_check_such_a_stack_would_go_unseen() -> None:
    """The fault is one: a leaf of the core's takes the rows, and keeps none of them."""
    platform = on_cpu()
    with Shim(drops_the_conversion):
        leaf: Any = platform.core.build_leaf(asked())
        leaf.set_kv_buffer(
            None, torch.tensor([1]), *(torch.ones(1, 2, 16),) * 2, layer_id_override=0
        )
    assert not leaf.k_buffer[0].any()


def test_it_is_read_back_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def looked(device: str, rows: str) -> str:
        seen.append(f"{rows} on {device}")
        return ""

    monkeypatch.setattr(fp8_platform, "fp8_fault", looked)
    platform = on_cpu()
    for request in (asked(torch.float16), asked(), asked(), asked(device="meta")):
        assert isinstance(platform.build_leaf(request), KVLeaf)
    assert seen == ["heads on cpu", "heads on meta"]
    for rows in (PACKED, LATENTS, PACKED, INDEXED, SPARSE):
        assert isinstance(platform.build_leaf(rows), KVLeaf)
    assert seen[2:] == ["packed latents on cpu", "index keys on cpu", "latents on cpu"]


@pytest.mark.parametrize(
    ("module", "kernel", "request_", "rows"),
    [
        (latent_format, "store_rows", LATENTS, "latents"),
        (latent_format, "store_latent_rows", LATENTS, "latents"),
        (latent_format, "store_packed_latent_rows", PACKED, "packed latents"),
        (index_pages, "store_index_keys", INDEXED, "index keys"),
        (row_stores, "store_fp8_row_sets", asked(), "heads"),
        (row_stores, "store_fp8_row_sets", SPARSE, "heads"),
    ],
)
def test_one_kernel_that_stores_nothing_declines_the_leaves_that_it_serves(
    monkeypatch: pytest.MonkeyPatch,
    module: ModuleType,
    kernel: str,
    request_: LeafRequest,
    rows: str,
) -> None:
    """Other leaves are built: their rows are stored by other kernels."""
    platform = on_cpu()
    monkeypatch.setattr(module, kernel, lambda *args, **keywords: None)
    answer = platform.build_leaf(request_)
    assert isinstance(answer, Declined), kernel
    assert f"{rows}: stored 1.0 as 0x00, which is 0x38 in float8_e4m3fn" in answer.reason
    served: dict[str, LeafRequest] = {"heads": asked(), "latents": LATENTS, "index keys": INDEXED}
    for other in served.keys() - {rows}:
        assert isinstance(platform.build_leaf(served[other]), KVLeaf), other


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("musa out of memory"), RuntimeError("the device was reset")]
)
def test_an_error_that_says_nothing_of_the_rows_is_raised_and_not_kept(error: RuntimeError) -> None:
    platform = on_cpu()

    def busy(_given: Tensor, _dtype: torch.dtype) -> None:
        raise error

    with Shim(busy), pytest.raises(type(error), match=str(error)):
        platform.build_leaf(asked())
    assert isinstance(platform.build_leaf(asked()), KVLeaf), "tried anew"


def test_sizes_alone_are_not_read_back() -> None:
    assert isinstance(on_cpu().build_leaf(asked(device="meta")), KVLeaf)
