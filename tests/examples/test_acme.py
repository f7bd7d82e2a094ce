"""A vendor's own package, installed, runs the kit from its own directory."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "examples" / "acme"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the package installed in `site` and its tests, far from this repository."""
    place = tmp_path_factory.mktemp("acme")
    source = shutil.copytree(PACKAGE, place / "source")
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--target", str(place / "site")]
    run([sys.executable, "-m", "pip", "install", *options, str(source)], place)
    shutil.copytree(PACKAGE / "tests", place / "tests")
    return place


def run(command: list[str], place: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(place / "site"), "NO_COLOR": "1"}
    return subprocess.run(
        command, cwd=place, env=environment, capture_output=True, text=True, check=False
    )


def test_every_law_passes_or_visibly_does_not_apply(installed: Path) -> None:
    done = run([sys.executable, "-m", "pytest", "-q", "-rs", "tests"], installed)
    assert done.returncode == 0, done.stdout
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) > 20, done.stdout
    assert "binds none of these pools" in done.stdout


def test_the_command_agrees(installed: Path) -> None:
    command = [sys.executable, "-m", "kvproto.cli", "check", "acme_kv:build"]
    done = run([*command, "--cannot", "HostCopyable=recomputed"], installed)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "AcmePool; 5 geometries served" in done.stdout
    for words in ("SWAPool over AcmePool", "✓ SWA composite", "✓ hybrid composite"):
        assert words in done.stdout


def test_the_platform_is_found_by_its_entry_point_and_keeps_every_law(installed: Path) -> None:
    command = [sys.executable, "-m", "kvproto.cli", "check", "--platform", "acme"]
    done = run([*command, "--json", "found.json"], installed)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all 16 laws kept" in done.stdout
    found = json.loads((installed / "found.json").read_text())
    built = {result["spec"] for result in found["results"] if result["law"] == "builder.allocators"}
    # A pair, a hybrid, a draft beside its model, a later stage, rings, and real sizes.
    assert built >= {
        "gpt_oss-page16-stage2",
        "qwen3_next-page256-one-pool",
        "llama-page64-draft",
        "olmo3-page16-rings",
        "gemma2-real",
    }


def test_a_wrong_claim_fails(installed: Path) -> None:
    test = installed / "tests" / "test_claims.py"
    source = (installed / "tests" / "test_acme.py").read_text()
    test.write_text(source.replace('"Transferable")', '"Transferable", "Movable")'))
    done = run([sys.executable, "-m", "pytest", "-q", str(test), "-k", "test_claims"], installed)
    assert done.returncode == 1
    assert "Movable claimed, but not detected" in done.stdout


def test_a_law_is_not_overridden(installed: Path) -> None:
    test = installed / "tests" / "test_override.py"
    source = (installed / "tests" / "test_acme.py").read_text()
    test.write_text(source + "\n    def test_law(self, law: str) -> None:\n        return\n")
    done = run([sys.executable, "-m", "pytest", "-q", str(test)], installed)
    assert done.returncode == 2
    assert "the kit's tests are not overridden" in done.stdout
