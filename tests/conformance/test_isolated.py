"""A pool that brings the process down fails a law, not the kit."""

from __future__ import annotations

import ctypes
import os
import re
import sys
import time
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import torch

from kvproto.conformance import BadInput, Factory, LawBroken, check_pool
from kvproto.conformance.guarded_memory import GuardedMemory
from kvproto.conformance.isolated import run_in_child
from kvproto.protocols import Declined, LeafRequest
from kvproto.reference import MHALeaf
from tests.conformance.plain import is_plain


class WritesOutside(MHALeaf):
    """Like a kernel without bounds checks: a negative location is an address below the buffer."""

    def set_kv_buffer(self, layer: Any, loc_info: Any, *rows: Any, **named: Any) -> None:
        if bool((loc_info < 0).any()):
            ctypes.memset(0, 1, 1)
        super().set_kv_buffer(layer, loc_info, *rows, **named)


class WritesBeside(MHALeaf):
    """Stores rows well, and then some bytes at a distance from the first buffer's start."""

    distance = 0
    written: ClassVar[list[int]] = []

    def set_kv_buffer(self, layer: Any, loc_info: Any, *rows: Any, **named: Any) -> None:
        super().set_kv_buffer(layer, loc_info, *rows, **named)
        self.written.append(layer.layer_id)
        ctypes.memset(self.k_buffer[0].data_ptr() + self.distance, 0, 4)


class WritesBelow(WritesBeside):
    distance = -4


class WritesAbove(WritesBeside):
    distance = 4096


class WritesInside(WritesBeside):
    """The first element of the reserved page: zero anyway."""


def factory_of(pool: type[MHALeaf]) -> Factory:
    def build(request: LeafRequest) -> Any:
        if is_plain(request):
            return pool(**request.keywords())
        return Declined("K and V rows only")

    return build


def found(pool: type[MHALeaf], law: str, **how: Any) -> str:
    """What the kit finds in one geometry; empty where the law is kept."""
    report = check_pool(factory_of(pool), laws=[law], specs=["mha-bf16-page1"], **how)
    return report.results[0].detail


def test_a_crash_is_a_finding() -> None:
    assert "killed by SIGSEGV" in found(WritesOutside, "leaf.negative-loc")


class Exits(MHALeaf):
    """Ends the program where it meets what it does not serve."""

    def set_kv_buffer(self, layer: Any, loc_info: Any, *rows: Any, **named: Any) -> None:
        if bool((loc_info < 0).any()):
            sys.exit(3)
        super().set_kv_buffer(layer, loc_info, *rows, **named)


def test_an_exit_of_the_pool_is_a_finding() -> None:
    told = found(Exits, "leaf.negative-loc")
    assert "set_kv_buffer(...): expected no exception, got SystemExit: 3" in told


def test_a_factory_that_declines_later_is_a_finding_in_every_child() -> None:
    served: list[object] = []

    def once(request: LeafRequest) -> Any:
        if served or not is_plain(request):
            return Declined("sold out")
        served.append(request)
        return MHALeaf(**request.keywords())

    report = check_pool(once, laws=["leaf.geometry"], specs=["mha-bf16-page1"], isolate="every")
    assert "served mha-bf16-page1 once and then declined: sold out" in report.results[0].detail


def test_laws_that_share_a_child_are_judged_one_by_one_where_one_is_broken() -> None:
    laws = ["leaf.negative-loc", "leaf.out-of-range", "leaf.write-read"]
    specs = ["mha-bf16-page1"]
    kept = check_pool(factory_of(MHALeaf), laws=laws, specs=specs)
    assert [r.status for r in kept.results] == ["passed"] * 3
    crashed = check_pool(factory_of(WritesOutside), laws=laws, specs=specs)
    by_law = {r.law: r.status for r in crashed.results}
    assert by_law["leaf.negative-loc"] == "failed"
    assert by_law["leaf.write-read"] == "passed"


def test_a_write_beside_a_buffer_is_a_finding() -> None:
    law, every = "leaf.write-read", {"isolate": "every"}
    assert "got 4 bytes overwritten right before a buffer" in found(WritesBelow, law, **every)
    assert "killed by SIGSEGV" in found(WritesAbove, law, **every)
    assert found(WritesInside, law, **every) == ""


def test_every_law_in_its_own_process_leaves_nothing_here() -> None:
    WritesInside.written.clear()
    assert found(WritesInside, "leaf.write-read", isolate="every") == ""
    assert WritesInside.written == []
    assert found(WritesInside, "leaf.write-read") == ""
    assert WritesInside.written != []


def test_guarded_buffers_are_what_the_pool_asked_for() -> None:
    memory = GuardedMemory()

    def build(_request: object) -> list[torch.Tensor]:
        return [
            torch.zeros(3, 5, dtype=torch.bfloat16),
            torch.empty((2, 4097), dtype=torch.uint8, device="cpu"),
            torch.zeros(0, 4),
            torch.zeros_like(torch.ones(7, 2, dtype=torch.float64)),
            torch.zeros(2, device="meta"),
        ]

    guarded, plain = memory.guarding(build)(None), build(None)
    assert [t.shape for t in guarded] == [t.shape for t in plain]
    assert [(t.dtype, t.device, t.stride()) for t in guarded] == [
        (t.dtype, t.device, t.stride()) for t in plain
    ]
    assert all(t.data_ptr() % 64 == 0 for t in guarded)
    assert [t.untyped_storage().nbytes() for t in guarded[:4]] == [30, 8194, 0, 112]
    assert memory.damage() == ""
    guarded[1][1, 4096] = 7
    assert memory.damage() == ""
    ctypes.memset(guarded[0].data_ptr() + 30, 0, 2)
    assert memory.damage() == "2 bytes overwritten right after a buffer"


def test_the_result_comes_back() -> None:
    assert run_in_child(lambda: ("failed", [1, 2])) == ("failed", [1, 2])
    assert run_in_child(os.getpid) != os.getpid()


def leave() -> None:
    raise SystemExit(0)


def unfit() -> None:
    raise BadInput("declined the second time")


@pytest.mark.parametrize(
    ("action", "told"),
    [
        (leave, "leave(...): expected no exception, got SystemExit: 0"),
        (unfit, "unfit(...): expected no exception, got BadInput: declined the second time"),
        (lambda: os._exit(0), "expected the process alive, got exit status 0"),
        (lambda: os._exit(7), "expected the process alive, got exit status 7"),
        (lambda: leave, None),
        (lambda: lambda: None, "expected no exception, got"),
    ],
)
def test_a_child_ends_as_a_result_or_a_finding(
    action: Callable[[], object], told: str | None
) -> None:
    mine = os.getpid()
    if told is None:
        assert run_in_child(action) is leave
    else:
        with pytest.raises(LawBroken, match=re.escape(told)):
            run_in_child(action)
    assert os.getpid() == mine, "the child went on with the caller's program"


def test_a_child_that_hangs_is_ended() -> None:
    with pytest.raises(LawBroken, match=r"expected an end within 0\.2 s, got none"):
        run_in_child(lambda: time.sleep(60), seconds=0.2)


def test_a_child_that_never_ends_is_ended_on_a_busy_machine_too() -> None:
    with pytest.raises(LawBroken, match=r"expected an end within 1 s of processor time, got none"):
        run_in_child(_spin, cpu_seconds=1)


def _spin() -> None:
    while True:
        pass


def test_of_several_the_first_buffer_is_told() -> None:
    memory = GuardedMemory()
    buffers = [memory.zeros(64 - lost) for lost in range(1, 9)]
    for lost, buffer in reversed([*enumerate(buffers, 1)]):
        ctypes.memset(buffer.data_ptr() + buffer.numel(), 0, lost)
    assert memory.damage() == "1 bytes overwritten right after a buffer"
