"""Sizes on the device: what keeps planes aligned is not counted, what is taken without need is."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kvproto.adapters.npu.platform import npu
from kvproto.conformance import check_platform, check_pool
from kvproto.protocols import Declined, MHALeafRequest
from kvproto.reference import MHALeaf

LAWS = ["size.predicted", "size.bytes"]


class TakesAHundredfold(MHALeaf):
    """Each buffer at the beginning of an allocation of a hundred of them."""

    def __init__(self, **keywords: Any) -> None:
        super().__init__(**keywords)
        for buffers in (self.k_buffer, self.v_buffer):
            for i, rows in enumerate(buffers):
                held = torch.zeros(100 * rows.numel(), dtype=rows.dtype, device=rows.device)
                buffers[i] = held[: rows.numel()].view(rows.shape)


def wasteful(request: object, /) -> object:
    if isinstance(request, MHALeafRequest) and request.layout == "nhd":
        return TakesAHundredfold(**request.keywords())
    return Declined("rows by head alone")


@pytest.mark.parametrize("law", LAWS)
def test_what_is_taken_without_need_is_counted(law: str) -> None:
    report = check_pool(wasteful, specs=["mha-bf16-page16-stage"], laws=[law], device="npu:0")
    assert [each.law for each in report.failures] == [law]


def test_planes_are_as_large_as_their_rows() -> None:
    platform = npu()
    assert not isinstance(platform, Declined)
    report = check_platform(platform, laws=LAWS, device="npu:0")
    assert not report.failures
    assert report.results
