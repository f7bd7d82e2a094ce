"""What `benchmarks/gpu.py` does without a GPU, and that it would see a wrong kernel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from benchmarks import gpu
from benchmarks.kernel_cases import Case, Inputs, Place, all_cases
from kvproto.kernels.triton.launch import Launch


def case_of(operation: str) -> Case:
    return next(case for case in all_cases() if case.operation == operation)


def test_without_a_gpu_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["gpu"])
    assert gpu.main() == 2
    assert "no GPU" in capsys.readouterr().out


def test_it_sees_a_kernel_that_does_nothing() -> None:
    case = case_of("move_row_sets")
    assert gpu.wrong(case, "cpu") == ""
    lazy = replace(case, plan=nothing)
    assert gpu.wrong(lazy, "cpu") == "the kernel differs from its twin"


def nothing(*inputs: Inputs) -> Iterator[Launch]:
    yield from ()


def test_bulks_are_as_large_as_they_are_said_to_be() -> None:
    case = case_of("store_row_sets")
    tokens = gpu.bulk_of(case)
    place = Place("meta", tokens, 2 * tokens)
    assert 0.9 < case.moves(*case.inputs(place)) / (256 << 20) <= 1.1


def test_every_operation_is_timed_before_one_is_timed_twice() -> None:
    cases = list(all_cases())
    operations = [case.operation for case in gpu._spread(cases)]
    kinds = len(set(operations))
    assert len(set(operations[:kinds])) == kinds
    assert len(operations) == len(cases)
