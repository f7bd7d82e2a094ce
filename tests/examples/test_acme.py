"""The vendor's package of `examples/acme`, far from this repository: its CI file, line by line."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
import venv
from importlib.metadata import entry_points
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PACKAGE = REPOSITORY / "examples" / "acme"
INSTALL, *CHECKERS, TESTS, VERDICT = [
    line
    for line in (PACKAGE / "ci.sh").read_text().splitlines()
    if not line.startswith(("#", "set "))
]
SCRIPT = "#!{python}\nimport sys\nfrom {module} import {attr}\nsys.exit({attr}())\n"
OFFLINE = {"PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
"""What is installed here is what an index would give. Of isolation, 0 means none, as pip has it."""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package, in an environment that has this one's packages and scripts."""
    place = tmp_path_factory.mktemp("acme")
    venv.create(place / "venv", with_pip=False)
    python = place / "venv" / "bin" / "python"
    path = sysconfig.get_path("purelib")
    (beside,) = (place / "venv" / "lib").glob("python*/site-packages")
    (beside / "beside.pth").write_text(f"import site; site.addsitedir({path!r})\n")
    for point in entry_points(group="console_scripts"):
        words = {"python": python, "module": point.module, "attr": point.attr.partition(".")[0]}
        script = python.parent / point.name
        script.write_text(SCRIPT.format(**words))
        script.chmod(0o755)
    return shutil.copytree(PACKAGE, place / "acme")


@pytest.fixture(scope="module")
def installed(package: Path) -> Path:
    """The same, after the first line of the CI file."""
    done = run(INSTALL, package)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Successfully installed acme-kv-1.2.3" in done.stdout
    assert "WARNING" not in done.stderr, "an extra that kvproto does not provide is a warning"
    return package


def run(line: str, package: Path) -> subprocess.CompletedProcess[str]:
    """A line of the CI file, in the package's folder, with the kvproto of this repository."""
    bin_of_venv = package.parent / "venv" / "bin"
    own = {
        "PATH": os.pathsep.join([str(bin_of_venv), os.environ["PATH"]]),
        "PYTHONPATH": str(REPOSITORY),
        # What mypy learns of torch is kept, under settings that are not this repository's.
        "MYPY_CACHE_DIR": str(REPOSITORY / ".mypy_cache" / "acme"),
        "PYTEST_ADDOPTS": "-q -rs -p no:cacheprovider",
        "NO_COLOR": "1",
        "COLUMNS": "100",
    }
    return subprocess.run(
        ["sh", "-euc", line],
        cwd=package,
        env=os.environ | OFFLINE | own,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("checker", CHECKERS)
def test_its_types_are_strict(installed: Path, checker: str) -> None:
    done = run(checker, installed)
    assert done.returncode == 0, done.stdout


def test_its_own_tests_pass(installed: Path) -> None:
    """The kit's laws on its pools and its platform, and models that are built and used."""
    done = run(TESTS, installed)
    assert done.returncode == 0, done.stdout
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) > 160, done.stdout
    for skipped in re.findall(r"SKIPPED.*", done.stdout):
        assert re.search(r": (binds no|not asked)", skipped), skipped


def test_the_verdict_is_a_page(installed: Path) -> None:
    """On a part of the models: the tests above have held it to all of them."""
    done = run(f"{VERDICT} --spec llama-page1", installed)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "--platform acme" in (installed / "report.html").read_text()


def test_its_ci_has_a_line_for_each_of_them() -> None:
    assert INSTALL == "pip install '.[test]'"
    assert (CHECKERS, TESTS) == (["mypy", "basedpyright"], "pytest")
    assert VERDICT == "kvproto check --platform acme --html report.html"
    assert "set -eu" in (PACKAGE / "ci.sh").read_text(), "a line that fails is the CI's end"
