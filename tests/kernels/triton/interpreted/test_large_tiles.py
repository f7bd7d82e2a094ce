"""The tiles of large batches, on few tokens: thresholds are lowered, tiles are as served."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

import pytest

import kvproto.kernels.triton
from benchmarks.kernel_cases import Case, Place
from tests.kernels.triton.interpreted.test_cases import (
    CASES,
    assert_same,
    distinct,
    launched,
    place_of,
)

THRESHOLDS = {"_MANY": 1, "_FEW": 0}
"""What a batch is compared with; the lowest values make every batch a large one."""

Constants = list[list[tuple[str, Any]]]


@pytest.fixture
def large_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    for found in pkgutil.iter_modules(kvproto.kernels.triton.__path__):
        module = importlib.import_module(f"kvproto.kernels.triton.{found.name}")
        for name, value in THRESHOLDS.items():
            if hasattr(module, name):
                monkeypatch.setattr(module, name, value)


def constants(case: Case, place: Place) -> Constants:
    """What the launches of a case are compiled for."""
    return [sorted(each.constants.items()) for each in case.plan(*case.inputs(place))]


def on_meta(case: Case, tokens: int) -> Constants:
    return constants(case, Place("meta", tokens, 2 * tokens))


def with_other_tiles() -> Iterator[tuple[Case, int]]:
    """Cases, and numbers of tokens with tiles that `test_cases` does not run."""
    for case in distinct(CASES):
        small = on_meta(case, place_of(case).tokens)
        for tokens in case.tokens:
            if on_meta(case, tokens) != small:
                yield case, tokens


OTHERS = list(with_other_tiles())


@pytest.mark.parametrize(
    ("case", "tokens"), OTHERS, ids=[f"{case.name}, {tokens}" for case, tokens in OTHERS]
)
@pytest.mark.usefixtures("large_tiles")
def test_tiles_of_large_batches_do_what_the_twin_does(case: Case, tokens: int) -> None:
    place = place_of(case)
    served = on_meta(case, tokens)
    assert constants(case, Place("meta", place.tokens, place.slots)) == served
    assert_same(case, place, lambda inputs: launched(case, inputs))


def test_operations_with_tiles_of_two_sizes_are_all_here() -> None:
    """Otherwise a threshold of another name would leave an operation out."""
    assert {case.operation for case, _ in OTHERS} == {
        case.operation
        for case in CASES
        if len({repr(on_meta(case, tokens)) for tokens in (place_of(case).tokens, *case.tokens)})
        > 1
    }
