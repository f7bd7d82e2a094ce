"""The vendor's package of `examples/acme`, installed by itself, does what its own CI does."""

from __future__ import annotations

import json
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


def test_every_model_is_built_on_it(package: Path) -> None:
    """Its leaves and allocators were held to their own laws by its tests."""
    report, command = package / "report.json", ["kvproto.cli", "check", "--platform", "acme"]
    done = run([*command, "--law", "builder", "--json", str(report)], package)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"all \d+ laws kept", done.stdout)
    results = json.loads(report.read_text())["results"]
    built = {result["spec"] for result in results if result["law"] == "builder.write-read"}
    # Rows by head, a window pair, rings, a hybrid, latent rows, index keys, a draft, a later stage.
    assert built >= {
        "llama-page1",
        "gpt_oss-page16-stage2",
        "olmo3-page16-rings",
        "qwen3_next-page256-one-pool",
        "deepseek_v3-page64-draft",
        "deepseek_v32-page16-stage2",
        "glm_moe_dsa_shared-page1",
    }
