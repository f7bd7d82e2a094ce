"""JSON that a program reads, HTML that a person reads, and one failure again."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from kvproto.cli import main
from kvproto.conformance import LAWS, check_pool
from kvproto.conformance.mutants import MUTANTS
from kvproto.conformance.profiles import PROFILES, profile_verdicts
from kvproto.conformance.report_html import report_html
from kvproto.conformance.report_json import report_data
from kvproto.reference import build_reference_leaf

from . import toys

HERE = __name__.rpartition(".")[0]
TOY = f"{HERE}.toys:build"


def test_json_says_what_the_report_says(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    assert main(["check", TOY, "--json", str(path)]) == 1
    data = json.loads(path.read_text())
    report = check_pool(toys.build, target=TOY)
    assert data == json.loads(json.dumps(report_data(report)))
    assert data["schema"] == "kvproto-report/2"
    assert data["implementation"] == {"factory": TOY, "classes": ["ToyPool"]}
    assert set(data["versions"]) == {"kvproto", "laws", "torch", "python"}
    statuses = {entry["status"] for entry in data["results"]}
    kinds = {"failed", "blocked", "not asked", "passed", "passed-by-fallback"}
    assert statuses == kinds
    assert {entry["level"] for entry in data["results"]} == {"core", "extended"}


def test_a_pool_with_regions_does_not_pass_by_fallback() -> None:
    report = check_pool(build_reference_leaf, specs=["mha-bf16-page1"])
    assert {r.status for r in report.results} == {"passed"}
    assert report.conformant


def test_verdict_per_consumer() -> None:
    report = check_pool(toys.build)
    answers = {v.profile: v for v in profile_verdicts(report, report.subjects[0])}
    assert answers["PD transfer"].answer == "no"
    assert answers["PD transfer"].lacks == "breaks transfer.item-len"
    assert answers["retraction"].lacks == "needs HostCopyable"
    assert "leaf.slot-zero" in answers["attention"].lacks
    good = check_pool(build_reference_leaf, specs=["mha-bf16-page1"])
    verdicts = profile_verdicts(good, good.subjects[0])
    assert {v.answer for v in verdicts} == {"yes"}


def test_rows_that_are_not_where_they_are_declared_count_for_whoever_reads_them() -> None:
    mutant = next(m for m in MUTANTS if m.kills == "oracle.rows")
    eyes = check_pool(mutant.factory, laws=["oracle"], **mutant.asked)
    told = {v.profile: v for v in profile_verdicts(eyes, eyes.subjects[0])}
    for consumer in ("attention", "PD transfer", "retraction", "host tier", "memory saver"):
        assert told[consumer].lacks == "breaks oracle.rows"
    kept = check_pool(build_reference_leaf, laws=["oracle"], specs=["mha-bf16-page1"])
    answers = {v.answer for v in profile_verdicts(kept, kept.subjects[0])}
    assert answers == {"not asked"}, "how rows are read answers for no consumer by itself"


@pytest.mark.parametrize(
    ("law", "lacks"),
    [
        ("memory-saver.books", "breaks memory-saver.books"),
        ("memory-saver.paused-rows", "breaks memory-saver.paused-rows"),
        ("memory-saver.region-state", "breaks memory-saver.region-state"),
        ("memory-saver.resume-state", "breaks memory-saver.resume-state"),
    ],
)
def test_the_memory_saver_asks_allocators_tables_and_state(law: str, lacks: str) -> None:
    mutant = next(m for m in MUTANTS if m.kills == law)
    report = check_pool(mutant.factory, laws=[law], **mutant.asked)
    told = [v for s in report.subjects for v in profile_verdicts(report, s)]
    assert lacks in {v.lacks for v in told if v.profile == "memory saver"}


def test_every_family_is_relied_on_by_some_consumer_or_by_the_kit() -> None:
    families = {law.family for law in LAWS.values()}
    named = {family for p in PROFILES for family in (*p.families, *p.beside)}
    of_the_kit = {"debug", "declaration", "platform", "traits"}
    assert named | of_the_kit == families


class Links(HTMLParser):
    """Collects what a page would fetch, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.fetched += [f"{tag} {v}" for k, v in attrs if k in ("src", "href") and v]
        if tag in ("script", "iframe", "object"):
            self.fetched.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_needs_no_network_and_holds_every_finding(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    assert main(["check", TOY, "--html", str(path)]) == 1
    page = Links()
    page.feed(path.read_text())
    assert page.fetched == []
    assert "@import" not in path.read_text()
    for result in check_pool(toys.build, target=TOY).failures:
        assert result.finding is not None
        assert result.finding.call in page.text
        assert f"kvproto repro {result.law} --seed 0 --spec {result.spec} {TOY}" in page.text


def test_text_from_a_pool_is_escaped() -> None:
    report = check_pool(toys.build, target="<script>alert(1)</script>")
    assert "<script>" not in report_html(report)


def test_repro_runs_one_failure_again(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["repro", "transfer.item-len", "--seed", "3", "--spec", "mha-fp32-page4", TOY]
    assert main(command) == 1
    shown = capsys.readouterr().out
    assert "✗ transfer.item-len" in shown
    assert "--seed 3" in shown
    assert main(["repro", "leaf.geometry", TOY]) == 0
    assert main(["repro", "leaf.nosuch", TOY]) == 2


def test_a_file_that_cannot_be_written_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "no" / "report.json"
    command = ["check", TOY, "--law", "leaf.geometry", "--json", str(missing)]
    assert main(command) == 2
    assert "cannot be written: No such file or directory" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_mutants_are_listed_with_what_kills_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from kvproto.conformance.mutants import MUTANTS, command

    one: list[Any] = [m for m in MUTANTS if m.kills == "leaf.slot-zero"]
    monkeypatch.setattr(command, "MUTANTS", one)
    assert main(["check", "--mutants"]) == 1
    shown = capsys.readouterr().out
    assert "laws that kill none" in shown


def test_mutants_of_a_law_alone(capsys: pytest.CaptureFixture[str]) -> None:
    from kvproto.conformance.mutants import MUTANTS

    assert main(["check", "--mutants", "--law", "leaf.slot-zero"]) == 0
    shown = capsys.readouterr().out
    wanted = sum(mutant.kills == "leaf.slot-zero" for mutant in MUTANTS)
    assert f"all {wanted} mutants killed" in shown
    assert "leaf.geometry" not in shown


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ([TOY], "module:factory"),
        (["--spec", "mha-bf16-page16"], "--spec"),
        (["--row-access", "a:B"], "--row-access"),
        (["--json", "report.json"], "--json"),
    ],
)
def test_what_mutants_do_not_go_with_is_said(
    more: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "--mutants", *more]) == 2
    assert f"not with {named}" in capsys.readouterr().err
