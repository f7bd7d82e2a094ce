"""docs/platforms.md is what the kit finds: what is built, all of it; what laws say, a sample."""

from __future__ import annotations

from typing import Any

import pytest

from kvproto.conformance import check_platform
from kvproto.conformance.capability_cells import capability_cells
from kvproto.conformance.platform_named import platform_names
from kvproto.conformance.platform_parts import PART_SPECS
from tests.conformance.platform_page import PAGE, rendered
from tests.conformance.platform_results import COLUMNS, built_of, loaded, read_results, stated

RESULTS = read_results()
STALE = "run `make platforms`"
SETTLED = ("declined", "not offered")
"""What can be said of a capability without a law."""


@pytest.fixture(params=COLUMNS)
def column(request: pytest.FixtureRequest) -> str:
    """Each platform of the page."""
    name: str = request.param
    return name


def test_the_page_is_what_was_measured() -> None:
    assert PAGE.read_text() == rendered(RESULTS), STALE


def test_every_platform_has_a_column() -> None:
    assert list(RESULTS) == list(COLUMNS), STALE
    assert set(platform_names()) <= set(COLUMNS)


def test_all_of_it_is_kept(column: str) -> None:
    measured: dict[str, Any] = RESULTS[column]
    assert measured["laws"]["broken"] == []
    assert measured["laws"]["parts"] > 100
    assert measured["laws"]["models"] >= 13
    states = {cell["state"] for cell in measured["capabilities"].values()}
    assert states <= {"kept", "offered", *SETTLED}


def test_what_is_declined_has_a_reason(column: str) -> None:
    for name, (built, why) in RESULTS[column]["built"].items():
        assert bool(built) != bool(why), name
    for name, cell in RESULTS[column]["capabilities"].items():
        assert bool(cell["why"]) is (cell["state"] != "kept"), name


def test_what_is_stated_and_built_is_as_it_was(column: str) -> None:
    assert stated(column) == RESULTS[column]["facts"], STALE
    assert built_of(column) == RESULTS[column]["built"], STALE


def test_a_sample_of_laws_says_the_same(column: str) -> None:
    """A geometry of each class that is built, and the laws about transfer, which cost little."""
    built = RESULTS[column]["built"]
    sample = {cls: name for name, (cls, _) in built.items() if cls and "Allocator" not in cls}
    platform = loaded(column).platform
    report = check_platform(platform, specs=list(sample.values()), laws=["transfer"])
    assert report.ok
    recorded = RESULTS[column]["capabilities"]
    for name, cell in capability_cells(report).items():
        if cell.state == "kept":
            assert recorded[name]["state"] == "kept", STALE
            assert len(cell.laws) <= recorded[name]["laws"], STALE


def test_what_no_part_has_is_recorded_so(column: str) -> None:
    every = [spec.name for spec in PART_SPECS]
    report = check_platform(
        loaded(column).platform, specs=every, laws=["composite.stage", "declaration.raising-stub"]
    )
    assert report.ok
    recorded = RESULTS[column]["capabilities"]
    for name, cell in capability_cells(report).items():
        if cell.state in SETTLED or recorded[name]["state"] in SETTLED:
            assert (cell.state, cell.why) == (recorded[name]["state"], recorded[name]["why"]), STALE


def test_a_model_is_built_as_recorded(column: str) -> None:
    built, declined = RESULTS[column]["models"]["llama"]
    report = check_platform(loaded(column).platform, specs=["llama-page1", "llama-page16-hnd"])
    assert report.ok
    refused = [why for _, why in report.declined if not why.startswith("cannot be planned")]
    assert len(refused) <= declined
    assert sum(len(subject.specs) for subject in report.subjects) <= built
