"""sglang's real model runner generates the same with its pools and with ours, in every run.

The whole matrix is `make engine-matrix`; this sample has every model, backend, page size and run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.interop.engine.configurations import MATRIX, SAMPLE
from tests.interop.engine.matrix import Outcome, outcomes
from tests.interop.engine.trees import Run, rewritten

Found = tuple[list[Outcome], dict[str, Any]]
OURS: tuple[Run, ...] = ("c", "d")
THEIRS: tuple[Run, ...] = ("a", "b")
BESIDE = ("window/torch_native/page 16/fp8_e4m3", "hybrid/torch_native/page 1/bfloat16")
KINDS = {
    "heads": ("mha", "MHARows"),
    "window": ("swa", "SWAComposite"),
    "latent": ("mla", "MLALatent"),
    "hybrid": ("hybrid_linear", "HybridComposite"),
}
PLACES = {
    "heads": {"pool", "allocator", "requests"},
    "window": {
        "pool",
        "full_kv_pool",
        "swa_kv_pool",
        "allocator",
        "full_attn_allocator",
        "swa_attn_allocator",
        "requests",
    },
    "latent": {"pool", "allocator", "requests"},
    "hybrid": {
        "pool",
        "full_kv_pool",
        "mamba_pool",
        "allocator",
        "requests",
        "mamba_allocator",
    },
}
"""What a model's memory and its accounts are made of."""


@pytest.fixture(scope="module")
def progress(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the runs say what they begin."""
    return tmp_path_factory.mktemp("told") / "progress"


@pytest.fixture(scope="module")
def told(interop_python: str, progress: Path) -> Found:
    with progress.open("wb") as file:
        return outcomes(interop_python, SAMPLE, beside=BESIDE, progress=file.fileno())


def test_each_configuration_is_named_as_each_run_begins_it(told: Found, progress: Path) -> None:
    lines = progress.read_text().splitlines()
    for run in told[1]:
        names = [each.name for each in MATRIX if each in SAMPLE]
        if run in {"leaves", "at_fault"}:
            names = [name for name in names if name in BESIDE]
        begun = [line for line in lines if line.startswith(f"round 1 of 1, run {run}, ")]
        assert begun == [
            f"round 1 of 1, run {run}, {number} of {len(names)}: {name}"
            for number, name in enumerate(names, start=1)
        ]
    assert [line for line in lines if line.endswith("starting")] == [
        f"round 1 of 1, run {run}: starting" for run in ("a", "b", "c")
    ]


def test_tokens_are_the_same_in_every_run(told: Found) -> None:
    for outcome in told[0]:
        assert outcome.equal, (outcome.name, outcome.tokens)


def test_tokens_vary(told: Found) -> None:
    for outcome in told[0]:
        assert outcome.distinct > len(outcome.tokens["a"]), outcome.name
        assert len({tuple(prompt) for prompt in outcome.tokens["a"]}) > 1, outcome.name


def test_pools_and_accounts_are_sglangs_where_they_should_be(told: Found) -> None:
    for outcome in told[0]:
        for run in THEIRS:
            pools = outcome.pools[run]
            assert set(pools) == PLACES[outcome.name.partition("/")[0]], outcome.name
            for place, classes in pools.items():
                assert classes[0].startswith("sglang."), (outcome.name, place)


def test_every_part_is_ours_where_it_should_be_and_has_nothing_of_sglangs(told: Found) -> None:
    """Leaves, composites, states, allocators of tokens, pages, pairs and states, and tables."""
    for outcome in told[0]:
        for run in OURS:
            pools = outcome.pools[run]
            assert set(pools) == PLACES[outcome.name.partition("/")[0]], outcome.name
            for place, classes in pools.items():
                assert classes[0].startswith("kvproto."), (outcome.name, place)
                assert not [cls for cls in classes if cls.startswith("sglang.")]


def test_sglangs_pools_and_ours_are_seen_as_the_same_through_the_contract(told: Found) -> None:
    for outcome in told[0]:
        kind, capability = KINDS[outcome.name.partition("/")[0]]
        for run in ("b", "c", "d"):
            seen = outcome.seen[run]
            assert seen["pool"][0] == kind, (outcome.name, run)
            assert {"KVPool", capability} <= set(seen["pool"][1]), (outcome.name, run)
            leaves = set(seen) - {"pool", "mamba_pool"}
            assert all({"KVLeaf", "MHARows"} <= set(seen[leaf][1]) for leaf in leaves)


def test_each_run_is_what_it_is_called(told: Found, interop_python: str) -> None:
    tree = rewritten(interop_python)
    by_run = {run: told[1][run] for run in ("a", "b", "c", "d")}
    for run, answer in by_run.items():
        assert Path(answer["sglang"]).is_relative_to(tree) is (run != "a"), run
    assert by_run["a"]["kvproto"] == []
    assert not any(name.startswith("kvproto.reference") for name in by_run["b"]["kvproto"])
    assert "kvproto.debug._checked" not in by_run["c"]["kvproto"]
    assert "kvproto.debug._checked" in by_run["d"]["kvproto"]


def test_sglangs_own_composites_and_accounts_work_over_our_leaves(told: Found) -> None:
    ours = {outcome.name: outcome for outcome in told[0]}
    for name in BESIDE:
        beside = told[1]["leaves"]["results"][name]
        assert beside["tokens"] == ours[name].tokens["c"], name
        leaves = {"full_kv_pool", "swa_kv_pool", "full_attn_allocator", "swa_attn_allocator"}
        for place, classes in beside["pools"].items():
            whose = "kvproto." if place in leaves else "sglang."
            assert classes[0].startswith(whose), (name, place)


def test_a_pool_that_drops_writes_is_noticed(told: Found) -> None:
    ours = {outcome.name: outcome for outcome in told[0]}
    for name in BESIDE:
        assert told[1]["at_fault"]["results"][name]["tokens"] != ours[name].tokens["c"], name
