"""Every rewritten gate answers as the original did, for every object of sglang's that builds.

A second process has sglang itself rewritten: its constructors pass through rewritten gates.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from kvproto.gates import Profile, Scan
from kvproto.gates.rewrite_tree import Tree
from tests.interop import report
from tests.interop.gates.questions import Question, questions_of

NOT_BUILT = {
    "page_major": "NotImplementedError",  # sglang 0.5.23 refuses to build it anywhere
}
NEVER_YES = {
    "DSV4NPUTokenToKVPool": "needs torch_npu",
    "MlxAuxiliaryStatePool": "needs mlx",
    "PageInterleaveDSATokenToKVPool": "sglang 0.5.23 refuses to build it anywhere",
    "UnifiedDraftKVPool": "needs a fused target and its draft",
    "UnifiedDraftKVPool|UnifiedDraftSWAKVPool": "needs a fused target and its draft",
    "UnifiedDraftSWAKVPool": "needs a fused target and its draft",
}
"""Questions that no object here answered with yes: of these only the no is compared."""


@pytest.fixture(scope="module")
def questions(scanned: Scan, sglang: Profile) -> list[Question]:
    return questions_of(scanned.gates, sglang)


@pytest.fixture(scope="module")
def asked(
    questions: list[Question], rewritten: Tree, tmp_path_factory: pytest.TempPathFactory
) -> str:
    modules = [f"sglang.srt.{f.file[:-3].replace('/', '.')}" for f in rewritten.changed]
    file: Path = tmp_path_factory.mktemp("asked") / "asked.json"
    told = {"questions": [question.as_json() for question in questions], "modules": modules}
    file.write_text(json.dumps(told))
    return str(file)


@pytest.fixture(scope="module")
def told(asked: str, interop_python: str) -> dict[str, Any]:
    return report.answers_of(interop_python, "tests.interop.gates.equivalence", asked, seconds=550)


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
    told: dict[str, Any], asked: str, interop_python: str, rewritten: Tree, tmp_path: Path
) -> None:
    overlay(rewritten, tmp_path)
    module = "tests.interop.gates.equivalence"
    again = report.answers_of(interop_python, module, asked, str(tmp_path), seconds=550)
    assert "kvproto" in Path(again["sglang"]).read_text()
    assert again | {"sglang": told["sglang"]} == told
    loaded = [module for module, why in again["imports"].items() if not why]
    assert len(loaded) > 50
    absent = {why.partition(":")[0] for why in again["imports"].values()} - {""}
    assert absent <= {"ModuleNotFoundError"}


def test_no_answer_is_another(told: dict[str, Any], questions: list[Question]) -> None:
    different = [
        (questions[one["question"]].classes, questions[one["question"]].test, one["object"])
        for one in told["different"]
    ]
    assert different == []


def test_the_table_is_as_large_as_the_page_says(
    told: dict[str, Any], questions: list[Question]
) -> None:
    page = (Path(__file__).parents[3] / "docs" / "gates.md").read_text()
    line = (
        f"{len(questions)} questions of {len(told['objects'])} objects: {told['answers']} answers, "
        f"{told['yes']} of them yes, {len(told['different'])} different"
    )
    assert line in page


def test_what_was_never_asked_with_a_yes_is_known(
    told: dict[str, Any], questions: list[Question]
) -> None:
    asked = set(told["asked with a yes"])
    never = {"|".join(q.classes) for number, q in enumerate(questions) if number not in asked}
    assert never == set(NEVER_YES)


def test_what_could_not_be_built_is_known(told: dict[str, Any]) -> None:
    assert {name: why.partition(":")[0] for name, why in told["refused"].items()} == NOT_BUILT
