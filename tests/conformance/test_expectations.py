"""Claims, known failures and pinned laws: the same rules in every front end."""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import Any

import pytest

from kvproto.cli import main
from kvproto.conformance import LAWS, BadInput, check_pool
from kvproto.conformance.suite import PoolConformance
from kvproto.reference import build_reference_leaf

from . import toys

HERE = __name__.rpartition(".")[0]
SPEC = ["mha-bf16-page1"]


def check(**asked: Any) -> Any:
    return check_pool(toys.build, specs=SPEC, **asked)


def test_a_known_failure_does_not_fail_the_run() -> None:
    report = check(laws=["leaf.slot-zero"], expected={"leaf.slot-zero": "kernel 4 is on its way"})
    assert report.ok
    assert not report.conformant
    assert [r.status for r in report.results] == ["expected"]
    assert report.results[0].note == "kernel 4 is on its way"


def test_a_known_failure_that_passes_fails_the_run() -> None:
    report = check(laws=["leaf.write-read"], expected={"leaf.write-read": "broken, they say"})
    assert [r.status for r in report.results] == ["unexpected"]
    assert not report.ok


@pytest.mark.parametrize(
    ("expected", "words"),
    [
        ({"leaf.nosuch": "x"}, "expected failure of 'leaf.nosuch': no law has that id"),
        ({"leaf.slot-zero": " "}, "expected failure of leaf.slot-zero: give a reason"),
        ({"leaf.slot-zero": {"reason": "x", "until": "soon"}}, "until='soon' is no date"),
        (
            {"leaf.slot-zero": {"reason": "x", "until": "2020-01-31"}},
            "ran out on 2020-01-31: x; mend it, or move the date",
        ),
        ({"fp8.scales": "x"}, "expected failure of fp8.scales: it binds none of these pools"),
    ],
)
def test_an_expectation_that_cannot_be_met_is_an_error(expected: Any, words: str) -> None:
    with pytest.raises(BadInput, match=words.replace(".", r"\.")):
        check(expected=expected)


def test_an_expectation_holds_until_its_date() -> None:
    tomorrow = datetime.date.today() + datetime.timedelta(days=1)
    known = {"leaf.slot-zero": {"reason": "next release", "until": tomorrow}}
    assert check(laws=["leaf.slot-zero"], expected=known).ok


def test_known_failures_are_read_from_toml(tmp_path: Any) -> None:
    known = tmp_path / "known.toml"
    known.write_text('["leaf.slot-zero"]\nreason = "kernel 4"\nuntil = 2999-01-01\n')
    command = ["check", f"{HERE}.toys:build", "--law", "leaf.slot-zero", "--expect", str(known)]
    assert main(command) == 0
    known.write_text("[broken")
    assert main(command) == 2


def test_claims_must_agree_with_detection_both_ways() -> None:
    everything = [
        c.name for c in check(laws=["declaration"]).subjects[0].capabilities if c.state == "yes"
    ]
    assert "Transferable" in everything
    cases: list[tuple[dict[str, Any], str]] = [
        ({"claims": [*everything, "Movable"]}, "Movable claimed, but not detected"),
        ({"claims": everything[1:]}, f"{everything[0]} detected, but not claimed"),
        ({"cannot": {"Transferable": "no"}}, "Transferable said to be impossible, but detected"),
    ]
    for asked, words in cases:
        found = [r for r in check(**asked).failures if r.law == "declaration.claims"]
        assert words in found[0].detail
    agreed = check(claims=everything, cannot={"Movable": "no kernel"})
    assert not [r for r in agreed.failures if r.law == "declaration.claims"]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"claims": ["Flying"]}, "no capability 'Flying'"),
        ({"cannot": {"Movable": ""}}, "say why the pool cannot"),
        ({"claims": ["Movable"], "cannot": {"Movable": "no"}}, "Movable is claimed, and said"),
        ({"laws_version": "one"}, "laws version 'one': write it like"),
    ],
)
def test_claims_that_make_no_sense_are_errors(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        check(**asked)


def test_laws_newer_than_the_pinned_version_are_advisory(monkeypatch: pytest.MonkeyPatch) -> None:
    newer = replace(LAWS["leaf.slot-zero"], since="1.1")
    monkeypatch.setitem(LAWS, "leaf.slot-zero", newer)
    report = check(laws=["leaf.slot-zero"], laws_version="1.0")
    assert [r.status for r in report.results] == ["advisory"]
    assert report.ok
    assert not check(laws=["leaf.slot-zero"], laws_version="1.1").ok


def test_nothing_executed_is_no_success() -> None:
    report = check_pool(build_reference_leaf, laws=["fp8"], specs=SPEC)
    assert report.results == ()
    assert not report.ok


def test_the_suite_names_its_missing_hook() -> None:
    class Empty(PoolConformance):
        pass

    with pytest.raises(BadInput, match=r"Empty\.make_pool\(request\) is not defined"):
        Empty().test_claims()
