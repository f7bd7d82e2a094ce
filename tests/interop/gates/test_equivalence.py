"""Every rewritten gate answers as the original did, for every object of sglang's that builds.

A second process has sglang itself rewritten: its constructors pass through rewritten gates.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from kvproto.gates import Gate, Profile, Scan
from kvproto.gates.answers import ByClass, Near
from kvproto.gates.rewrite_tree import Tree
from tests.interop.gates.equivalence_page import (
    DATA,
    DIFFERENT,
    NOT_BUILT,
    PAGE,
    as_csv,
    asked_of,
    rendered,
    rows_of,
)
from tests.interop.gates.overlay import overlay
from tests.interop.gates.questions import Question, members_of, questions_of

REFUSED = {"host_rows_with_scales", "page_major"}
"""Makers that sglang refuses, for the reasons in `NOT_BUILT`."""


@pytest.fixture(scope="module")
def questions(scanned: Scan, sglang: Profile) -> dict[Question, list[Gate]]:
    return questions_of(scanned.gates, sglang)


@pytest.fixture(scope="module")
def everything(
    questions: dict[Question, list[Gate]], scanned: Scan, sglang: Profile
) -> dict[Question, list[Gate]]:
    # In this order: the answers to `questions` come first.
    return questions | members_of(scanned.gates, sglang)


@pytest.fixture(scope="module")
def modules(rewritten: Tree) -> list[str]:
    return [f"sglang.srt.{f.file[:-3].replace('/', '.')}" for f in rewritten.changed]


@pytest.fixture(scope="module")
def told(
    everything: dict[Question, list[Gate]], modules: list[str], interop_python: str
) -> dict[str, Any]:
    return asked_of(interop_python, everything, modules)


def test_a_rewritten_sglang_builds_the_same_and_answers_the_same(
    told: dict[str, Any],
    everything: dict[Question, list[Gate]],
    modules: list[str],
    interop_python: str,
    rewritten: Tree,
    tmp_path: Path,
) -> None:
    overlay(rewritten.root, {f.file: f.after for f in rewritten.changed}, tmp_path)
    again = asked_of(interop_python, everything, modules, str(tmp_path))
    assert "kvproto" in Path(again["sglang"]).read_text()
    assert again | {"sglang": told["sglang"]} == told
    loaded = [module for module, why in again["imports"].items() if not why]
    assert len(loaded) > 50
    absent = {why.partition(":")[0] for why in again["imports"].values()} - {""}
    assert absent <= {"ModuleNotFoundError"}


def test_only_explained_answers_are_others(
    told: dict[str, Any], questions: dict[Question, list[Gate]]
) -> None:
    different = {
        (name, question.was)
        for question, answers in zip(questions, told["answers"], strict=False)
        for name, (was, now) in zip(told["objects"], answers, strict=True)
        if was != now
    }
    assert {name for name, _ in different} == set(DIFFERENT), different
    assert len(different) == len(DIFFERENT), different


def test_a_table_lets_through_the_classes_that_it_did(told: dict[str, Any]) -> None:
    """As it is: that the rewritten one lets the same through is asserted with all other answers."""
    table = told["table"]
    assert table.keys() == {"mha", "mla", "dsa"}
    assert {"MHATokenToKVPool", "NPUMHATokenToKVPool"} <= set(table["mha"])
    assert {"MLATokenToKVPool", "NPUMLATokenToKVPool", "DSATokenToKVPool"} <= set(table["mla"])
    assert "NPUMLATokenToKVPool" not in table["dsa"]
    assert "SWAKVPool" not in {name for names in table.values() for name in names}


def test_no_question_is_only_answered_with_no(
    told: dict[str, Any], questions: dict[Question, list[Gate]]
) -> None:
    pairs = zip(questions, told["answers"], strict=False)
    never = [question.was for question, answers in pairs if not any(now for _, now in answers)]
    assert never == []


def test_every_rewritten_gate_is_in_the_table(
    questions: dict[Question, list[Gate]], rewritten: Tree
) -> None:
    asked = [gate for gates in questions.values() for gate in gates]
    done = [gate for file in rewritten.files for gate in file.done]
    tables = [gate for gate in done if isinstance(gate.answer, ByClass)]
    assert [(gate.kind, gate.operand) for gate in tables] == [("issubclass", "pool_cls")]
    done.remove(tables[0])
    assert sorted(map(repr, asked)) == sorted(map(repr, done))


def test_a_member_that_some_pool_answers_otherwise_is_left_to_a_person(
    told: dict[str, Any], everything: dict[Question, list[Gate]]
) -> None:
    for (question, gates), answers in zip(everything.items(), told["answers"], strict=True):
        if question.attribute:
            differs = any(was != now for was, now in answers)
            assert {isinstance(gate.answer, Near) for gate in gates} == {differs}, question.was


def test_every_class_of_the_profile_has_an_object_or_a_reason(
    told: dict[str, Any], sglang: Profile
) -> None:
    assert set(sglang.classes) - set(told["objects"].values()) == set(NOT_BUILT)
    assert set(told["refused"]) == REFUSED


def test_the_table_and_the_page_are_what_is_answered(
    told: dict[str, Any], everything: dict[Question, list[Gate]], sglang: Profile
) -> None:
    rows = rows_of(told, everything)
    assert DATA.read_text() == as_csv(rows), "run: make gates-equivalence"
    page = rendered(rows, sglang)
    assert PAGE.read_text() == page, "run: make gates-equivalence"
    counts = re.search(r"(\d+) gates that try a member .* for (\d+) of these gates", page)
    assert counts is not None
    told_twice = f"for {counts[2]} of the {counts[1]} that have an answer"
    assert told_twice in (PAGE.parent / "gates.md").read_text()
