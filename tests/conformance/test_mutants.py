"""Every law is broken by the faults it is about, and the reference pools break none."""

from __future__ import annotations

from typing import Any

import pytest

from kvproto.conformance import LAWS, Report, check_platform, check_pool
from kvproto.conformance.block_codec import is_block_scaled
from kvproto.conformance.command import BUILT_IN
from kvproto.conformance.composite_bench import SWABench
from kvproto.conformance.factory import load_factory
from kvproto.conformance.mutants import MUTANTS, Mutant
from kvproto.conformance.profiles import PROFILES
from kvproto.conformance.report import LawResult
from kvproto.conformance.specs import SPECS
from kvproto.conformance.specs.models import MODELS
from kvproto.protocols import Declined, SWAPoolRequest
from kvproto.reference import MHALeaf, build_reference_pool
from kvproto.reference.platforms import cpu
from tests.conformance.plain import is_plain


def test_every_law_kills_a_mutant() -> None:
    assert {mutant.kills for mutant in MUTANTS} == set(LAWS)


def test_names_are_unique() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_the_law_names_its_mutant(mutant: Mutant) -> None:
    report = mutant.report()
    assert report.failures, f"{mutant.kills} let {mutant.name} pass"
    assert {result.law for result in report.failures} == {mutant.kills}
    assert not report.ok


def test_a_pool_that_wants_its_own_layer_class_is_found_by_the_rows_it_lost() -> None:
    """The kit's layers and the core's both have all that a leaf may look at."""
    mutant = next(m for m in MUTANTS if m.name == "WantsItsOwnLayerClass")
    report = check_pool(mutant.factory, laws=[mutant.kills])
    assert report.failures
    for result in report.failures:
        assert result.finding is not None
        assert result.finding.call.startswith("set_kv_buffer on a pair over WantsItsOwnLayerClass")
        assert result.finding.got.startswith("[0, ")


def test_who_asks_for_more_than_a_verdict_is_told_a_shorter_failure() -> None:
    mutant = next(m for m in MUTANTS if m.name == "KeepsPeersInsideGroups")
    whole = check_pool(mutant.factory, laws=[mutant.kills], specs=["pure-window"])
    first = next(r for r in mutant.report().failures if r.spec == "pure-window")
    (shorter,) = whole.failures
    assert len(_calls(shorter)) < len(_calls(first))


def _calls(failure: LawResult) -> list[str]:
    assert failure.finding is not None
    return failure.finding.call.split("; ")


def test_block_scales_of_a_composite_are_judged_by_its_protocols_alone() -> None:
    """A vendor's pair need not have `layer_ids`, or anything else that no protocol names."""
    pairs = (s for s in SPECS if isinstance(s.request, SWAPoolRequest))
    spec = next(s for s in pairs if is_block_scaled(s.request.full))
    pool: Any = build_reference_pool(spec.request)

    class Theirs:
        full_kv_pool, swa_kv_pool = pool.full_kv_pool, pool.swa_kv_pool
        k_scale_buffer, v_scale_buffer = pool.k_scale_buffer, pool.v_scale_buffer
        leaf_for, leaves = pool.leaf_for, pool.leaves
        get_kv_scale_buffer = pool.get_kv_scale_buffer
        get_kv_scale_buf_infos = pool.get_kv_scale_buf_infos

    LAWS["composite.scales"].run(SWABench(spec.request, Theirs()))


_ROWS = "ours keep index keys in pages; asked of Ascend leaves, tests/adapters/npu/test_kit.py"
_EYES = "ours declare their regions and lend no `RowAccess`; asked in test_row_access.py"
BIND_NO_POOL_OF_OURS = {
    "declaration.claims": "binds what a vendor says beside its pools",
    "indexer.group-move": "no pool of ours with an index key for several tokens moves rows",
    "index-rows.guards": _ROWS,
    "index-rows.host-copy": _ROWS,
    "index-rows.inputs": _ROWS,
    "index-rows.layers": _ROWS,
    "index-rows.move": _ROWS,
    "index-rows.others": _ROWS,
    "index-rows.read-waits": _ROWS,
    "index-rows.refuses": _ROWS,
    "index-rows.state": _ROWS,
    "index-rows.write-read": _ROWS,
    "oracle.no-doors": _EYES,
    "oracle.peek-regions": _EYES,
    "oracle.poke-peek": _EYES,
    "oracle.poke-read": _EYES,
    "write.dcp-mask": "no pool of ours takes a mask of decode context parallelism",
}
"""Laws that no built-in pool is asked, and why."""

NOT_ASKED = {
    ("composite.replication", "HybridLinearPool"): "of state alone",
    ("composite.size", "HybridLinearPool"): "of state alone",
    ("mha.buffers", "FP4Leaf"): "its read doors dequantise",
    ("mha.buffers", "NVFP4Leaf"): "its read doors dequantise",
    ("transfer.order", "MLAFP4Leaf"): "its regions are of rows and scales",
    ("transfer.order", "PageEnvelopeLeaf"): "its regions are whole pages",
}
"""Laws that come to nothing in some geometry of a built-in class, and why."""


DECLINED = (
    "no reference MLA leaf",
    "no reference DSA leaf",
    "no reference sparse-index leaf",
    "page_envelope keeps every row at a multiple of 16 bytes",
    "vectorized_5d keeps 8 elements of 2 bytes together",
)
"""Rows that the reference has no leaf for: block scales of latents and beside index rows, and
widths of odd models."""


@pytest.fixture(scope="module")
def reports() -> list[Report]:
    """Every built-in pool, held to every law; the run takes most of a minute."""
    return [check_pool(load_factory(target)) for target in BUILT_IN]


@pytest.fixture(scope="module")
def deployed() -> Report:
    """Every model on the CPU, held to every law about whole models; parts are among the pools."""
    return check_platform(cpu(), laws=["builder"])


def test_built_in_pools_keep_every_law(reports: list[Report]) -> None:
    for report in reports:
        assert [f"{r.law} on {r.spec}: {r.detail}" for r in report.failures] == []
        others = [r for r in report.results if r.status != "passed"]
        assert {r.status for r in others} == {"not asked"}
        assert {(r.law, r.subject.split("[")[0]) for r in others} == set(NOT_ASKED)
        assert report.core_never_asked == []


def test_every_model_keeps_every_law_on_the_cpu(deployed: Report) -> None:
    assert [f"{r.law} on {r.spec}: {r.detail}" for r in deployed.failures] == []
    assert {r.status for r in deployed.results} == {"passed"}
    assert {s.name for s in deployed.subjects} == set(MODELS)
    reasons = {reason for _, reason in deployed.declined}
    assert all(r.startswith(("cannot be planned", *DECLINED)) for r in reasons)


def test_every_law_is_asked_of_some_built_in_pool(reports: list[Report], deployed: Report) -> None:
    """Kept there, not merely bound: what was not asked does not count."""
    everything = [r for report in (*reports, deployed) for r in report.results]
    kept = {r.law for r in everything if r.status == "passed"}
    assert set(LAWS) - kept == set(BIND_NO_POOL_OF_OURS)


def test_every_law_counts_for_some_consumer_or_is_of_the_kit(
    reports: list[Report], deployed: Report
) -> None:
    """On the subjects it binds, not by its family's name alone."""
    found = [
        (result.rule, any(p.uses(subject) and p.counts(result.rule) for p in PROFILES))
        for report in (*reports, deployed)
        for subject in report.subjects
        for result in report.results
        if result.subject == subject.name
    ]
    counted = {law.id for law, counts in found if counts}
    uncounted = {law.id for law, _ in found} - counted
    assert {LAWS[law].family for law in uncounted} == {"debug", "declaration", "platform", "traits"}
    missed = {law.id for law, counts in found if not counts} - uncounted
    assert missed == set(), "laws that count on some of their subjects only"


def test_a_pool_built_as_mutants_are_is_not_what_fails() -> None:
    def build(request: object) -> object:
        if is_plain(request):
            return MHALeaf(**request.keywords())
        return Declined("K and V rows only")

    assert check_pool(build).ok
