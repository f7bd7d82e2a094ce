"""On the real sglang the scanner finds what was counted by hand, nothing else, and judges alike."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from kvproto.gates import Gate, Profile, Scan
from kvproto.gates.gate import DUCK_KINDS
from tests.interop.gates.census import ABOUT, Counted, census, corrected

Row = tuple[str, int, str, str, str]


def row(gate: Gate) -> Row:
    subject = "|".join(sorted(gate.classes)) or str(gate.attribute)
    return gate.file, gate.line, gate.kind, subject, gate.operand


def counted(one: Counted) -> Row:
    return one.file, one.line, one.kind, one.subject, one.operand


def test_every_file_can_be_read(scanned: Scan) -> None:
    assert scanned.unread == {}
    assert scanned.files > 2000


def test_the_census_is_whole() -> None:
    duck = [one for one in census() if one.kind in {"hasattr", "getattr"}]
    assert (len(census()), len(duck)) == (447, 210)


def test_no_gate_is_missed_and_none_is_found_beside_them(scanned: Scan) -> None:
    found = Counter(row(gate) for gate in scanned.gates)
    expected = Counter(counted(one) for one in corrected())
    assert (expected - found, found - expected) == (Counter(), Counter())


def test_the_counts(scanned: Scan) -> None:
    on_classes = [gate for gate in scanned.gates if gate.kind not in DUCK_KINDS]
    # The census has the one try/except among the 237.
    assert (len(on_classes) + 1, len(scanned.gates)) == (237, 449)
    assert sum(gate.typing_only for gate in on_classes) == 8
    assert sum(gate.asserted for gate in on_classes) == 34


def judged(one: Counted, gate: Gate) -> bool:
    """Whether a gate's verdict goes with what was counted."""
    match one.structure:
        case "yes" | "typing":
            return gate.verdict == "exact"
        case "no":
            return gate.verdict != "exact"
        case _:
            return True


def test_verdicts_are_those_of_the_census_or_say_why_not(scanned: Scan) -> None:
    told = {
        (one["structure"], one["verdict"], subject): False
        for one in ABOUT["judged"]
        for subject in one["subjects"]
    }
    by_row: dict[Row, Counted] = {counted(one): one for one in corrected()}
    for gate in scanned.gates:
        one = by_row[row(gate)]
        if not judged(one, gate):
            told[one.structure, gate.verdict, one.subject] = True
    assert all(told.values()), [why for why, seen in told.items() if not seen]
    assert len(told) == sum(len(one["subjects"]) for one in ABOUT["judged"])


def test_every_class_that_is_tested_and_every_member_that_is_tried_has_a_rule(
    scanned: Scan, sglang: Profile
) -> None:
    tested = {name for gate in scanned.gates for name in gate.classes}
    tried = {gate.attribute for gate in scanned.gates} - {None}
    assert tested <= set(sglang.classes)
    assert tried <= set(sglang.attributes) | {o.attribute for o in sglang.overrides}


def test_every_rule_of_a_place_is_used(scanned: Scan, sglang: Profile) -> None:
    used = {gate.why for gate in scanned.gates}
    assert [override for override in sglang.overrides if override.why not in used] == []
    assert {table.why for table in sglang.tables} <= used
    members = set(sglang.attributes)
    assert members <= {gate.attribute for gate in scanned.gates}


def test_every_hot_place_has_a_gate(scanned: Scan, sglang: Profile) -> None:
    hot = {(f"srt/{gate.file}", gate.scope) for gate in scanned.gates if gate.hot}
    assert hot == set(sglang.hot)
    assert len(hot) > 20


def test_the_page_says_of_every_hot_class_gate_why_it_is_not_bound(
    scanned: Scan, sglang: Profile, sglang_srt: Path
) -> None:
    page = (Path(__file__).parents[3] / "docs" / "gates.md").read_text()
    table = page.partition("### On hot paths")[2].partition("##")[0]
    listed = re.findall(r"`([\w.]+)`", "".join(re.findall(r"^\| ([^|]*`[^|]*) \|", table, re.M)))
    assert Counter(listed) == Counter({g.scope for g in scanned.gates if g.hot and g.classes})
    assert sglang.binds == ()
    # Whoever swaps a pool of a live object, as the table says.
    for file in re.findall(r"`((?:speculative|managers)/\w+\.py)`", table):
        source = (sglang_srt / file).read_text()
        assert re.search(r"(?<!self)\.(?:token_to_kv|req_to_token)_pool = ", source), file


def test_the_page_has_these_counts(scanned: Scan) -> None:
    verdicts = Counter(gate.verdict for gate in scanned.gates)
    told = ", ".join(f"{verdicts[v]} {v}" for v in ("exact", "needs-trait", "needs-person"))
    page = (Path(__file__).parents[3] / "docs" / "gates.md").read_text()
    assert (
        f"449 gates in 105 of {scanned.files} files: 236 on classes, 213 on members; {told}" in page
    )
