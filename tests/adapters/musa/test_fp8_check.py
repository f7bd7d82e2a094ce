"""The first fp8 leaf has a row read back, and stacks that store it wrong are told apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from kvproto.adapters.musa import fp8_check
from kvproto.adapters.musa import platform as fp8_platform
from kvproto.adapters.musa.platform import on_cpu
from kvproto.protocols import Declined, KVLeaf, MHALeafRequest
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
    assert answer.reason.startswith(f"musa: {said}" if "cannot" not in said else "musa: fp8 rows")
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

    def looked(device: str) -> str:
        seen.append(device)
        return ""

    monkeypatch.setattr(fp8_platform, "fp8_fault", looked)
    platform = on_cpu()
    for request in (asked(torch.float16), asked(), asked(), asked(device="meta")):
        assert isinstance(platform.build_leaf(request), KVLeaf)
    assert seen == ["cpu", "meta"]


def test_sizes_alone_are_not_read_back() -> None:
    assert isinstance(on_cpu().build_leaf(asked(device="meta")), KVLeaf)
