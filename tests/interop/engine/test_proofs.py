"""A scenario is proved by what the scheduler did, and by nothing less."""

from __future__ import annotations

from typing import Any

import pytest

from tests.interop.engine.proofs import disproved
from tests.interop.engine.scenarios import SCENARIOS

PROVED: dict[str, Any] = {
    "cached": [0, 80, 0],
    "same as computed": True,
    "distinct": [40, 8],
    "new tokens": [110, 8],
    "distinct after it came back": [37],
    "retracted": [0, 0, 0, 0, 1],
    "retracted alone": [0, 0, 0, 0, 0],
    "same as alone": True,
    "extend batches": 4,
    "decode batches": 23,
    "largest extend": 64,
    "requests together": 4,
    "slots in use": 95,
    "window slots in use": 41,
    "window slots freed": 65,
    "retractions": 1,
    "given up": 0,
    "accounts checked": 29,
    "accounts wrong": 0,
    "flushes": 2,
    "cached before a flush": 223,
    "slots lost": 0,
    "states in use": 4,
    "states cached before a flush": 7,
}
"""What proves every scenario at once."""


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_what_happened_is_proved(scenario: str) -> None:
    assert disproved(scenario, PROVED) == []


@pytest.mark.parametrize(
    ("scenario", "fact", "instead"),
    [
        ("together", "requests together", 3),
        ("prefix", "cached", [0, 0, 0]),
        ("prefix", "cached", [0, 80, 80]),
        ("prefix", "cached", [80, 80, 0]),
        ("prefix", "same as computed", False),
        ("chunks", "extend batches", 1),
        ("chunks", "largest extend", 200),
        ("window", "window slots freed", 0),
        ("window", "window slots in use", 95),
        ("window", "window slots in use", 0),
        ("pressure", "retractions", 0),
        ("pressure", "retracted", [0, 0, 0, 0, 0]),
        ("pressure", "retracted alone", [1, 0, 0, 0, 0]),
        ("pressure", "same as alone", False),
        ("pressure", "distinct after it came back", [11]),
        ("pressure", "distinct after it came back", []),
        *(
            (scenario, fact, instead)
            for scenario in SCENARIOS
            for fact, instead in (
                ("accounts checked", 0),
                ("accounts wrong", 1),
                ("flushes", 0),
                ("cached before a flush", 0),
                ("slots lost", 1),
                ("states in use", 0),
                ("states cached before a flush", 0),
                ("distinct", [27, 8]),
                ("given up", 1),
            )
        ),
    ],
)
def test_without_it_the_scenario_is_not(scenario: str, fact: str, instead: object) -> None:
    assert len(disproved(scenario, PROVED | {fact: instead})) == 1
