"""A pool that brings the process down fails a law, not the kit."""

from __future__ import annotations

import ctypes
import os
import time
from typing import Any

import pytest

from kvproto.conformance import LawBroken, check_pool
from kvproto.conformance.isolated import run_in_child
from kvproto.protocols import Declined, LeafRequest, MHALeafRequest
from kvproto.reference import MHALeaf


class WritesOutside(MHALeaf):
    """Like a kernel without bounds checks: a negative location is an address below the buffer."""

    def set_kv_buffer(self, layer: Any, loc_info: Any, *rows: Any, **named: Any) -> None:
        if bool((loc_info < 0).any()):
            ctypes.memset(0, 1, 1)
        super().set_kv_buffer(layer, loc_info, *rows, **named)


def build(request: LeafRequest) -> Any:
    if isinstance(request, MHALeafRequest):
        return WritesOutside(**request.keywords())
    return Declined("K and V rows only")


def test_a_crash_is_a_finding() -> None:
    report = check_pool(build, laws=["leaf.negative-loc"], specs=["mha-bf16-page1"])
    assert "killed by SIGSEGV" in report.failures[0].detail


def test_the_result_comes_back() -> None:
    assert run_in_child(lambda: ("failed", [1, 2])) == ("failed", [1, 2])
    assert run_in_child(os.getpid) != os.getpid()


def test_a_child_that_hangs_is_ended() -> None:
    with pytest.raises(LawBroken, match=r"expected an end within 0\.2 s, got none"):
        run_in_child(lambda: time.sleep(60), seconds=0.2)
