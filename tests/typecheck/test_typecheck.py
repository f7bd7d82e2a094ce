"""What the type checkers must accept and refuse: the folders of `typecheck/`."""

from __future__ import annotations

import functools
import runpy
from pathlib import Path

import pytest

from tests.typecheck.checking import REPOSITORY, Complaint, complaints

FOLDERS = ("pass", "fail", "reveal", "vendors")
CHECKERS = ("mypy", "pyright")


@functools.cache
def said(checker: str) -> list[Complaint]:
    return complaints(checker, ["typecheck"], REPOSITORY)


@pytest.mark.parametrize("checker", CHECKERS)
@pytest.mark.parametrize("folder", FOLDERS)
def test_folder(checker: str, folder: str) -> None:
    """In `fail/`, a mistake that is no longer found leaves its ignore unused: an error as well."""
    inside = [str(c) for c in said(checker) if c.file.is_relative_to(Path("typecheck") / folder)]
    if inside:
        pytest.fail("\n".join([f"{checker} disagrees", *inside]), pytrace=False)


@pytest.mark.parametrize("file", sorted((REPOSITORY / "typecheck/pass").glob("*.py")), ids=str)
def test_pass_runs(file: Path) -> None:
    runpy.run_path(str(file))["run"]()


@pytest.mark.parametrize("file", sorted((REPOSITORY / "typecheck/fail").glob("*.py")), ids=str)
def test_fail_refuses_something(file: Path) -> None:
    """Both checkers run on strict settings, so a file without an ignore would refuse nothing."""
    assert "# pyright: ignore[" in file.read_text()


def test_every_file_is_in_a_folder_that_is_checked() -> None:
    folders = {
        path.relative_to(REPOSITORY / "typecheck").parts[0]
        for path in (REPOSITORY / "typecheck").rglob("*.py")
    }
    assert folders == set(FOLDERS)
