"""Every rewritten gate answers as the original did, for every object of sglang's that builds.

A second process has sglang itself rewritten: its constructors pass through rewritten gates.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from kvproto.gates import Gate, Profile, Scan
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
from tests.interop.gates.questions import Question, questions_of

REFUSED = {"host_rows_with_scales", "page_major"}
"""Makers that sglang refuses, for the reasons in `NOT_BUILT`."""


@pytest.fixture(scope="module")
def questions(scanned: Scan, sglang: Profile) -> dict[Question, list[Gate]]:
    return questions_of(scanned.gates, sglang)


@pytest.fixture(scope="module")
def modules(rewritten: Tree) -> list[str]:
    return [f"sglang.srt.{f.file[:-3].replace('/', '.')}" for f in rewritten.changed]


@pytest.fixture(scope="module")
def told(
    questions: dict[Question, list[Gate]], modules: list[str], interop_python: str
) -> dict[str, Any]:
    return asked_of(interop_python, questions, modules)


def overlay(tree: Tree, top: Path) -> None:
    """A package `sglang` of links to the real one, and of the rewritten files."""
    (top / "sglang").mkdir()
    for child in tree.root.parent.iterdir():
        if child.name not in {"srt", "__pycache__"}:
            (top / "sglang" / child.name).symlink_to(child)
    after = {file.file: file.after for file in tree.changed}
    for folder, folders, names in os.walk(tree.root):
        folders[:] = [name for name in folders if name != "__pycache__"]
        here = Path(folder).relative_to(tree.root)
        (top / "sglang" / "srt" / here).mkdir()
        for name in names:
            file = top / "sglang" / "srt" / here / name
            if (here / name).as_posix() in after:
                file.write_bytes(after[(here / name).as_posix()])
            else:
                file.symlink_to(tree.root / here / name)


def test_a_rewritten_sglang_builds_the_same_and_answers_the_same(
    told: dict[str, Any],
    questions: dict[Question, list[Gate]],
    modules: list[str],
    interop_python: str,
    rewritten: Tree,
    tmp_path: Path,
) -> None:
    overlay(rewritten, tmp_path)
    again = asked_of(interop_python, questions, modules, str(tmp_path))
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
        for question, answers in zip(questions, told["answers"], strict=True)
        for name, (was, now) in zip(told["objects"], answers, strict=True)
        if was != now
    }
    assert {name for name, _ in different} == set(DIFFERENT), different
    assert len(different) == len(DIFFERENT), different


def test_no_question_is_only_answered_with_no(
    told: dict[str, Any], questions: dict[Question, list[Gate]]
) -> None:
    pairs = zip(questions, told["answers"], strict=True)
    never = [question.was for question, answers in pairs if not any(now for _, now in answers)]
    assert never == []


def test_every_rewritten_gate_is_in_the_table(
    questions: dict[Question, list[Gate]], rewritten: Tree
) -> None:
    asked = [gate for gates in questions.values() for gate in gates]
    done = [gate for file in rewritten.files for gate in file.done]
    assert sorted(map(repr, asked)) == sorted(map(repr, done))


def test_every_class_of_the_profile_has_an_object_or_a_reason(
    told: dict[str, Any], sglang: Profile
) -> None:
    assert set(sglang.classes) - set(told["objects"].values()) == set(NOT_BUILT)
    assert set(told["refused"]) == REFUSED


def test_the_table_and_the_page_are_what_is_answered(
    told: dict[str, Any], questions: dict[Question, list[Gate]], sglang: Profile
) -> None:
    rows = rows_of(told, questions)
    assert DATA.read_text() == as_csv(rows), "run: make gates-equivalence"
    assert PAGE.read_text() == rendered(rows, sglang), "run: make gates-equivalence"
