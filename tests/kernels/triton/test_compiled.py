"""Kernels compile for five GPUs into what is demanded, and the page says what they compile to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.kernels.triton.page import PAGE, read_results, rendered

ROOT = Path(__file__).parents[3]
RESULTS = read_results()
TARGETS = {"sm_80", "sm_90", "sm_100", "gfx942", "gfx950"}
RENEW = "run `make kernels-results`"


@pytest.fixture(scope="module")
def now(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the kernels are now: in a process in which nothing is interpreted."""
    clean = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.kernels.triton.compiled", "--check"],
        cwd=ROOT,
        env=clean | {"TRITON_CACHE_DIR": str(tmp_path_factory.mktemp("triton"))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_the_results_are_of_these_kernels(now: dict[str, Any]) -> None:
    """A digest follows from sources, constants and Triton's version: what is compiled does too."""
    committed = {name: result["digest"] for name, result in RESULTS.items()}
    assert committed == now["digests"], RENEW


def test_a_sample_compiles_to_the_same_again(now: dict[str, Any]) -> None:
    assert {name.partition(":")[0] for name in now["sample"]} == {
        name.partition(":")[0] for name in RESULTS
    }
    for name, result in now["sample"].items():
        assert len(result["targets"]) == 2
        for target, found in result["targets"].items():
            assert found == RESULTS[name]["targets"][target], f"{name}, {target}: {RENEW}"


def test_the_page_shows_the_results() -> None:
    assert PAGE.read_text() == rendered(RESULTS), RENEW


@pytest.mark.parametrize("name", RESULTS)
def test_demands(name: str) -> None:
    result = RESULTS[name]
    load, store = result["unit"]
    assert set(result["targets"]) == TARGETS
    for target, found in result["targets"].items():
        assert found["spills"] == 0, target
        assert found["load"] >= load, target
        assert found["store"] >= store, target
        assert found["narrow"] == 0, target


def test_wrong_products_are_found(now: dict[str, Any]) -> None:
    """Otherwise none found in a kernel says nothing."""
    assert set(now["wrong"]) == {
        "location_times_row", "program_times_pitch", "widened_too_late", "shifted_location",
        "doubled_location", "added_around_a_loop", "summed_lengths", "scanned_lengths",
    }  # fmt: skip
    for name, lines in now["wrong"].items():
        assert lines, name
