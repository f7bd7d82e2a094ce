"""Every kernel on the shape of every model, on a small pool: what its twin does, and no more."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
import torch

from benchmarks.kernel_cases import Case, Inputs, Place, all_cases, tensors_of
from kvproto.kernels.triton.launch import Launch, run
from tests.kernels.triton.interpreted.touched import some_programs, touched

CASES = list(all_cases())
SMALL = 12


def place_of(case: Case, *, padding: bool = True) -> Place:
    """As few tokens as make the kernel do what the case is about."""
    tokens = SMALL if min(case.tokens) < 256 else min(case.tokens)
    return Place("cpu", tokens, 2 * tokens, padding=padding)


OF_WIDTH = {"SHAPE", "SHAPES", "TOKENS", "COLUMNS", "BLOCK", "PITCH"}
"""Constants that follow from how wide rows are."""


def distinct(cases: Iterable[Case]) -> list[Case]:
    """Of cases that differ in the width of rows alone two narrow ones and the widest."""
    groups: dict[object, dict[str, tuple[int, Case]]] = {}
    for case in (case for case in cases if case.interpret):
        inputs = case.inputs(Place("meta", min(case.tokens), 64))
        constants = [each.constants for each in case.plan(*inputs)]
        kind = [
            [(k, v) for k, v in sorted(each.items()) if k not in OF_WIDTH] for each in constants
        ]
        alike = groups.setdefault((case.operation, repr(kind)), {})
        alike.setdefault(repr(constants), (case.moves(*inputs), case))
    chosen: list[Case] = []
    for alike in groups.values():
        by_size = [case for _, case in sorted(alike.values(), key=lambda each: each[0])]
        chosen += [*by_size[:2], *by_size[2:][-1:]]
    return chosen


@pytest.mark.parametrize("case", distinct(CASES), ids=lambda case: case.name)
def test_a_kernel_does_what_its_twin_does(case: Case) -> None:
    place = place_of(case)
    assert_same(case, place, lambda inputs: launched(case, inputs))


@pytest.mark.parametrize("case", distinct(CASES), ids=lambda case: case.name)
def test_a_kernel_touches_no_byte_that_it_need_not(case: Case) -> None:
    assert_touched(case, place_of(case, padding=False))


BULK = 8192
"""Tokens of a prefill."""

NO_BULK = "move_", "copy_slots", "clear_slots"
"""Their programs have columns and all pairs; those of staged moves are counted above."""


def in_bulk() -> list[Case]:
    """Of each operation on rows the case with the fewest bytes: interpreting takes time."""
    chosen: dict[str, tuple[int, Case]] = {}
    for case in CASES:
        if case.rows is not None and not case.operation.startswith(NO_BULK):
            size = case.moves(*case.inputs(Place("meta", BULK, 2 * BULK)))
            least = chosen.get(case.operation, (size, case))
            chosen[case.operation] = min(least, (size, case), key=lambda each: each[0])
    return [case for _, case in chosen.values()]


@pytest.mark.parametrize("case", in_bulk(), ids=lambda case: case.name)
def test_a_bulk_touches_no_byte_that_it_need_not(case: Case) -> None:
    """Programs of a bulk are alike: some are counted, and stand for the others."""
    inputs, total = case.inputs(Place("cpu", BULK, 2 * BULK, padding=False)), 0.0
    for launch in case.plan(*inputs):
        with touched() as count, some_programs(launch.grid[0], 8) as times:
            run(launch)
        total += times * (count.loaded + count.stored)
    assert case.moves(*inputs) <= total <= case.allowed(inputs)


def growing() -> list[Case]:
    """A case of each operation that lends slots to requests."""
    return [case for case in CASES if "alloc_" in case.operation and "of 16" in case.shape]


@pytest.mark.parametrize("case", growing(), ids=lambda case: case.operation)
def test_bytes_grow_as_requests_do(case: Case) -> None:
    """What a kernel may touch does, and it touches no more."""
    assert_touched(case, Place("cpu", 160, 320, padding=False))
    few, many = (case.inputs(Place("cpu", n, 2 * n, padding=False)) for n in (1024, 4096))
    assert case.allowed(many) <= 4.1 * case.allowed(few)
    assert case.allowed(many) <= 3 * case.moves(*many)


def first_of_each() -> list[Case]:
    return list({case.operation: case for case in reversed(CASES)}.values())


@pytest.mark.parametrize("case", first_of_each(), ids=lambda case: case.operation)
@pytest.mark.usefixtures("served_on_cpu")
def test_the_operation_launches_its_kernel(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[Launch] = []

    def spy(launch: Launch) -> None:
        ran.append(launch)
        run(launch)

    monkeypatch.setattr("kvproto.kernels.triton.launch.run", spy)
    inputs = case.inputs(place_of(case))
    case.call(*inputs)
    planned = [each.kernel for each in case.plan(*inputs)]
    assert [each.kernel for each in ran] == planned


@pytest.mark.parametrize("case", first_of_each(), ids=lambda case: case.operation)
@pytest.mark.usefixtures("without_host_paths")
def test_a_kernel_does_what_torch_operations_do(case: Case) -> None:
    assert_same(case, place_of(case), lambda inputs: launched(case, inputs))


def assert_touched(case: Case, place: Place) -> None:
    inputs = case.inputs(place)
    with touched() as count:
        launched(case, inputs)
    assert case.moves(*inputs) <= count.loaded + count.stored <= case.allowed(inputs)


def assert_same(case: Case, place: Place, kernel: Callable[[Inputs], None]) -> None:
    ours, theirs = case.inputs(place), case.inputs(Place(place.device, place.tokens, place.slots))
    kernel(ours)
    case.call(*theirs)
    for got, expected in zip(tensors_of(ours), tensors_of(theirs), strict=True):
        assert torch.equal(bits(got), bits(expected))


def launched(case: Case, inputs: Inputs) -> None:
    for launch in case.plan(*inputs):
        run(launch)


def bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.reshape(-1).view(torch.uint8)
