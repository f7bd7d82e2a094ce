"""The vendor's package of `examples/acme`, installed by itself, does what its own CI does."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PACKAGE = REPOSITORY / "examples" / "acme"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package far from this repository, installed beside it in `site`."""
    place = tmp_path_factory.mktemp("acme")
    source = shutil.copytree(PACKAGE, place / "acme")
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--target", str(place / "site")]
    done = run(["pip", "install", *options, "."], source)
    assert done.returncode == 0, done.stdout + done.stderr
    return source


def run(command: list[str], package: Path) -> subprocess.CompletedProcess[str]:
    """A module of this environment, with the package's folder as the directory."""
    path = os.pathsep.join([str(package.parent / "site"), str(REPOSITORY)])
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=package,
        env=os.environ | {"PYTHONPATH": path, "NO_COLOR": "1", "COLUMNS": "100"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "checker",
    [
        # What mypy learns of torch is kept, under settings that are not this repository's.
        ["mypy", "--cache-dir", str(REPOSITORY / ".mypy_cache" / "acme")],
        ["basedpyright", "--pythonpath", sys.executable],
    ],
    ids=["mypy", "pyright"],
)
def test_its_types_are_strict(package: Path, checker: list[str]) -> None:
    done = run(checker, package)
    assert done.returncode == 0, done.stdout


def test_its_own_tests_pass(package: Path) -> None:
    """The kit's laws on its pools and its platform, and models that are built and used."""
    done = run(["pytest", "-q", "-rs", "-p", "no:cacheprovider"], package)
    assert done.returncode == 0, done.stdout
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) > 160, done.stdout
    for skipped in re.findall(r"SKIPPED.*", done.stdout):
        assert re.search(r": (binds no|not asked)", skipped), skipped


def test_its_ci_is_what_is_run_here() -> None:
    """But for the last command: `docs/bring-your-own-pool.md` runs it on fewer models."""
    lines = (PACKAGE / "ci.sh").read_text().splitlines()
    commands = [line for line in lines if not line.startswith(("#", "set "))]
    *here, last = commands
    assert here == ["pip install '.[test]'", "mypy", "basedpyright", "pytest"]
    assert last == "kvproto check --platform acme --html report.html"
