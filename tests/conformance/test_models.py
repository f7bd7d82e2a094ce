"""The models of allocators: every rule runs, and what they find is short and said in calls."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import pytest
import torch

from kvproto.conformance import LawBroken, check_pool
from kvproto.conformance.account_bench import AllocBench
from kvproto.conformance.bench import Bench
from kvproto.conformance.hisparse_bench import HiSparseBench
from kvproto.conformance.models import (
    DeviceMachine,
    PairMachine,
    PureMachine,
    SlotsMachine,
    StateRowsMachine,
    play,
)
from kvproto.conformance.mutants.accounts import TakesAllForOwnedAfterClear
from kvproto.conformance.pair_bench import PairBench
from kvproto.conformance.specs.accounts import ACCOUNT_SPECS
from kvproto.conformance.state_rows_bench import StateRowsBench
from kvproto.conformance.window_bench import PureBench
from kvproto.protocols import (
    AllocatorRequest,
    HiSparseAllocatorRequest,
    PureSWAAllocatorRequest,
    StateRequestPoolRequest,
    SWAAllocatorRequest,
)
from kvproto.reference.build_any import build_reference
from kvproto.reference.token_allocator import TokenAllocator


def bench_of(kind: type[Bench], request: Any, seed: int = 0) -> Bench:
    bench = kind(request, build_reference(request), seed)
    bench.another, bench.build = partial(build_reference, request), build_reference
    return bench


@pytest.mark.parametrize(
    ("machine", "kind", "asked"),
    [
        (SlotsMachine, AllocBench, AllocatorRequest),
        (PairMachine, PairBench, SWAAllocatorRequest),
        (PureMachine, PureBench, PureSWAAllocatorRequest),
        (DeviceMachine, HiSparseBench, HiSparseAllocatorRequest),
        (StateRowsMachine, StateRowsBench, StateRequestPoolRequest),
    ],
)
def test_every_rule_runs_in_a_few_runs_of_the_kit(
    machine: Any, kind: type[Bench], asked: type
) -> None:
    requests: list[Any] = [s.request for s in ACCOUNT_SPECS if isinstance(s.request, asked)]
    small = [each for each in requests if getattr(each, "page_size", 1) <= 4]
    ran = Counter[str]()
    for seed in range(5):
        for request in small:
            ran += play(machine, bench_of(kind, request, seed))
        if set(ran) == machine.RULES:
            break
    assert set(ran) == machine.RULES


def test_the_same_seed_plays_the_same_steps() -> None:
    request = ACCOUNT_SPECS[0].request
    first, again, other = (
        play(SlotsMachine, bench_of(AllocBench, request, seed)) for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_a_finding_is_a_short_sequence_of_calls() -> None:
    request = ACCOUNT_SPECS[0].request
    bench = bench_of(AllocBench, request)
    bench.another = partial(
        TakesAllForOwnedAfterClear, request.size, torch.int64, "cpu", None, False
    )
    with pytest.raises(LawBroken) as found:
        play(SlotsMachine, bench)
    assert "clear(); free([" in found.value.call
    assert found.value.call.count(";") <= 4
    assert found.value.expected.startswith("available_size() ")


class RaisesAtOnce(TokenAllocator):
    def alloc(self, need_size: int, /) -> torch.Tensor | None:
        raise NotImplementedError("no pages")


def test_a_finding_names_the_call_that_raised() -> None:
    request = ACCOUNT_SPECS[0].request
    bench = bench_of(AllocBench, request)
    bench.another = partial(RaisesAtOnce, request.size, torch.int64, "cpu", None, False)
    with pytest.raises(LawBroken) as found:
        play(SlotsMachine, bench)
    assert found.value.call == "alloc(...)"
    assert found.value.got.startswith("NotImplementedError: no pages (test_models.py:")


def test_what_ran_is_told_in_the_report() -> None:
    report = check_pool(build_reference, laws=["alloc.model"], specs=["alloc-page4"])
    assert [r.status for r in report.results] == ["passed"]
    assert "of 16 rules ran" in report.results[0].note
