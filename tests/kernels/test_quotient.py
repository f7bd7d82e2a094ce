"""Twins divide by tensors of their own device: by a number in host memory a GPU multiplies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from kvproto.kernels import pack_latent_rows, quantise_fp4, quantise_mxfp8, to_fp8
from kvproto.kernels.quotient import quotient


class Divisors(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch has no types here
    """What is divided by, and whether anything is copied to another device."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # as above
        self.found: list[object] = []

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if func in (torch.ops.aten.div.Tensor, torch.ops.aten.div.Scalar):
            self.found.append(args[1])
        return func(*args, **(kwargs or {}))


ROWS = torch.empty(4, 1, 128, device="meta")
ONE = torch.full((), 0.3)
CALLS: dict[str, tuple[int, Callable[[], object]]] = {
    "packed latents": (1, lambda: pack_latent_rows(ROWS, ROWS)),
    "fp8, a number": (1, lambda: to_fp8(ROWS, torch.float8_e4m3fn, 0.3)),
    "fp8, a tensor in host memory": (1, lambda: to_fp8(ROWS, torch.float8_e4m3fn, ONE)),
    "fp8, a tensor": (1, lambda: to_fp8(ROWS, torch.float8_e4m3fn, ONE.to("meta"))),
    "mxfp8": (2, lambda: quantise_mxfp8(ROWS)),
    "fp4_mx16": (3, lambda: quantise_fp4(ROWS, "fp4_mx16", ONE)),
    "nvfp4": (3, lambda: quantise_fp4(ROWS, "nvfp4", ONE.to("meta"))),
}


@pytest.mark.parametrize("case", CALLS)
def test_every_divisor_is_on_the_device(case: str) -> None:
    count, call = CALLS[case]
    with Divisors() as divisors:
        call()
    # Powers of two, of which reciprocals are exact, may be numbers.
    inexact = [each for each in divisors.found if isinstance(each, Tensor) or each != 2]
    assert len(inexact) == count
    assert all(isinstance(each, Tensor) and each.is_meta for each in inexact)


def test_a_reciprocal_is_not_enough() -> None:
    """Of random numbers some quotients are not the product; ours are those of float64."""
    values = torch.randn(4096, generator=torch.Generator().manual_seed(0))
    exact = (values.double() / torch.tensor(448.0).double()).float()
    assert torch.equal(quotient(values, 448.0), exact)
    assert not torch.equal(values * (1 / torch.tensor(448.0)), exact)
