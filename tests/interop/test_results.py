"""The reviewed files of `results/` say what sglang's real pools answer today."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

import pytest

from tests.interop.make_venv import REQUIREMENTS
from tests.interop.report import RESULTS, rendered


def test_the_release_asked_is_the_one_pinned(answers: dict[str, Any]) -> None:
    pins = "".join(file.read_text() for file in REQUIREMENTS.glob("*.txt")).split()
    for name, version in answers["versions"].items():
        assert f"{name}=={version.partition('+')[0]}" in pins


@pytest.mark.parametrize("name", ["capabilities.json", "advertised.json"])
def test_results_are_as_reviewed(answers: dict[str, Any], name: str) -> None:
    reviewed, found = (RESULTS / name).read_text(), rendered(answers)[name]
    if reviewed != found:
        changed = difflib.unified_diff(
            reviewed.splitlines(), found.splitlines(), "reviewed", "found now", lineterm="", n=2
        )
        pytest.fail(
            f"{name} changed; when that is meant, `make interop-results` and review the diff:\n"
            + "\n".join(changed),
            pytrace=False,
        )


def test_results_name_no_path_of_a_machine() -> None:
    home = str(Path.home())
    for file in RESULTS.iterdir():
        assert home not in file.read_text()
        assert str(RESULTS.parents[2]) not in file.read_text()
