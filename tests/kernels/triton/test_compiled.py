"""Kernels compile for five GPUs into what is demanded, and the page says what they compile to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.kernel_cases.rows import Rows, index_rows, tiled_rows
from kvproto.kernels import IndexLayout, RowTiles
from tests.kernels.triton.narrow import NOT_ALIGNED, SCALAR
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


def test_other_options_and_attributes_are_another_digest(now: dict[str, Any]) -> None:
    """They are compiled otherwise, from the same source, constants and dtypes."""
    assert len(set(now["others"])) == len(now["others"]) == 4
    assert now["others"][0] in now["digests"].values()


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
    """Widths follow from the tensors of the case alone."""
    result = RESULTS[name]
    load, store = result["allowed"] or (4, 4)
    assert set(result["targets"]) == TARGETS
    for target, found in result["targets"].items():
        assert found["spills"] == 0, target
        assert found["load"] >= load, target
        assert found["store"] >= store, target
        assert found["narrow"] == 0, target


def test_every_access_of_less_than_16_bytes_has_its_reason() -> None:
    of_numbers, narrow = set[str](), set[str]()
    for name, result in RESULTS.items():
        if result["allowed"] is None:
            of_numbers.add(name.partition(":")[0])
        elif 0 < min(filter(None, result["allowed"])) < 16:
            reasons = [reason for reason in NOT_ALIGNED if reason in name]
            assert reasons, f"{name}: {result['allowed']}"
            narrow.update(reasons)
    assert of_numbers == set(SCALAR)
    assert narrow == set(NOT_ALIGNED)


def test_widths_are_those_of_known_tensors() -> None:
    """By hand: contiguous, as slices, with pieces apart, tiled, and index pages."""
    rows = torch.empty(7, 6, 64, dtype=torch.bfloat16, device="meta")
    assert Rows(rows).widest == 16
    assert Rows(rows[:, :, 4:]).widest == 8
    assert Rows(rows[..., 1:3]).widest == 2
    assert Rows(rows[:, 1:, :32]).widest == 16
    assert Rows(rows.transpose(1, 2)).widest == 16
    assert Rows(rows[:, 1:4].transpose(1, 2)[:, :4]).widest == 8
    assert Rows(rows.transpose(0, 1)).widest == 16
    assert Rows(torch.empty(3, 66, dtype=torch.uint8, device="meta")).widest == 2
    assert Rows(torch.empty(3, 1, dtype=torch.int64, device="meta")).widest == 8
    buffer = torch.empty(4 * 512, dtype=torch.bfloat16, device="meta")
    of_tokens = RowTiles(512, token=((2, 8), (8, 1)), row=((32, 16),))
    assert tiled_rows(buffer, of_tokens).widest == 2
    assert tiled_rows(buffer, of_tokens, whole_pages=True).widest == 16
    known: list[tuple[int, IndexLayout, list[int]]] = [
        (64, "token_rows", [16, 4]), (64, "preshuffled", [16, 4]), (1, "token_rows", [4, 4]),
    ]  # fmt: skip
    for size, layout, widths in known:
        pages = torch.empty(5, 132 * size, dtype=torch.uint8, device="meta")
        assert [each.widest for each in index_rows(pages, 128, layout)] == widths


def test_wrong_products_are_found(now: dict[str, Any]) -> None:
    """Otherwise none found in a kernel says nothing."""
    assert set(now["wrong"]) == {
        "location_times_row", "program_times_pitch", "widened_too_late", "shifted_location",
        "doubled_location", "added_around_a_loop", "summed_lengths", "scanned_lengths",
    }  # fmt: skip
    for name, lines in now["wrong"].items():
        assert lines, name
