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
POOLS = {"pool", "full_kv_pool", "swa_kv_pool"}


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


def test_pools_are_sglangs_where_they_should_be(told: Found) -> None:
    for outcome in told[0]:
        for run in THEIRS:
            for place in POOLS & set(outcome.pools[run]):
                assert outcome.pools[run][place][0].startswith("sglang."), (outcome.name, place)


def test_pools_and_leaves_are_ours_where_they_should_be_and_have_nothing_of_sglangs(
    told: Found,
) -> None:
    for outcome in told[0]:
        for run in OURS:
            for place in POOLS & set(outcome.pools[run]):
                classes = outcome.pools[run][place]
                assert classes[0].startswith("kvproto."), (outcome.name, place)
                assert not [cls for cls in classes if cls.startswith("sglang.")]
        if "/page 16/" in outcome.name and not outcome.name.startswith("window/"):
            assert outcome.pools["c"]["allocator"][0].startswith("kvproto."), outcome.name
    pairs = [outcome for outcome in told[0] if outcome.name.startswith("window/")]
    assert pairs
    assert all(set(outcome.pools["c"]) >= POOLS for outcome in pairs)


def test_request_tables_states_and_most_allocators_stay_sglangs(told: Found) -> None:
    """As docs/engine.md says: sglang has no hook for them."""
    for outcome in told[0]:
        model, _, page = outcome.name.split("/")[:3]
        theirs = {"requests"} | ({"states"} if model == "hybrid" else set())
        theirs |= {"allocator"} if page == "page 1" or model == "window" else set()
        for run in OURS:
            pools = outcome.pools[run]
            whose = {place for place, classes in pools.items() if classes[0].startswith("sglang.")}
            assert whose == theirs, (outcome.name, run)


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


def test_sglangs_own_composites_work_over_our_leaves(told: Found) -> None:
    ours = {outcome.name: outcome for outcome in told[0]}
    for name in BESIDE:
        beside = told[1]["leaves"]["results"][name]
        assert beside["tokens"] == ours[name].tokens["c"], name
        assert beside["pools"]["pool"][0].startswith("sglang.")
        assert beside["pools"]["full_kv_pool"][0].startswith("kvproto.")


def test_a_pool_that_drops_writes_is_noticed(told: Found) -> None:
    ours = {outcome.name: outcome for outcome in told[0]}
    for name in BESIDE:
        assert told[1]["at_fault"]["results"][name]["tokens"] != ours[name].tokens["c"], name
