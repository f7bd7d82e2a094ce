"""A vendor writes a leaf, and the kit runs our composites over it."""

from __future__ import annotations

from typing import Any

import pytest

from kvproto.conformance import BadInput, Report, check_pool
from kvproto.conformance.composite_bench import SWABench
from kvproto.conformance.profiles import profile_verdicts
from kvproto.conformance.specs import SPECS
from kvproto.protocols import (
    Declined,
    HybridPoolRequest,
    MHALeafRequest,
    SWAPoolRequest,
)
from kvproto.reference import MHALeaf, build_reference_pool
from tests.conformance.plain import is_plain
from tests.conformance.toys import build as toy

PAIRS = [spec for spec in SPECS if isinstance(spec.request, SWAPoolRequest)]


def rows_only(request: Any) -> Any:
    if is_plain(request):
        return MHALeaf(**request.keywords())
    return Declined("K and V rows only")


def everything(request: Any) -> Any:
    if isinstance(request, MHALeafRequest | SWAPoolRequest | HybridPoolRequest):
        return build_reference_pool(request, build_leaf=rows_only)
    return Declined("pools only")


def by_name(report: Report) -> dict[str, set[str]]:
    return {s.name: {r.law for r in report.results if r.subject == s.name} for s in report.subjects}


def test_what_the_factory_declines_is_built_over_its_leaves() -> None:
    report = check_pool(rows_only, laws=["swa", "hybrid", "composite"])
    bound = by_name(report)
    assert {"SWAPool over MHALeaf", "HybridLinearPool over MHALeaf"} <= set(bound)
    assert "swa.write-window" in bound["SWAPool over MHALeaf"]
    assert "hybrid.host-copy" in bound["HybridLinearPool over MHALeaf"]
    assert report.ok
    verdicts = {
        v.profile: v.answer for s in report.subjects if s.over for v in profile_verdicts(report, s)
    }
    assert verdicts["SWA composite"] == verdicts["hybrid composite"] == "yes"


def test_a_factory_with_composites_of_its_own_is_held_to_those() -> None:
    report = check_pool(everything, laws=["swa.layers", "hybrid.layers"])
    assert not any(subject.over for subject in report.subjects)
    assert report.ok


class OfOneKind:
    """A factory that keeps its last pool, and hands it out for both sides of a pair."""

    def __init__(self) -> None:
        self.pools: dict[int, MHALeaf] = {}

    def __call__(self, request: Any) -> Any:
        if not is_plain(request):
            return Declined("K and V rows only")
        if request.layer_num not in self.pools:
            self.pools[request.layer_num] = MHALeaf(**request.keywords())
        return self.pools[request.layer_num]


def half_the_layers(request: Any) -> Any:
    if not is_plain(request):
        return Declined("K and V rows only")
    half: Any = {"layer_num": request.layer_num // 2, "end_layer": None}
    keywords: Any = request.keywords() | half
    return MHALeaf(**keywords)


def two_layers_only(request: Any) -> Any:
    if is_plain(request) and request.layer_num > 1:
        return MHALeaf(**request.keywords())
    return Declined("more than one layer only")


def why(factory: Any, pair: str = "swa-page1") -> str:
    """The reason for which a pair is declined."""
    report = check_pool(factory, laws=["composite.leaves"], specs=["mha-bf16-page1", pair])
    assert not any(subject.over for subject in report.subjects)
    return dict(report.declined)[pair]


def test_the_reason_why_there_is_no_composite_is_told_beside_the_factorys_own() -> None:
    none = "K and V rows only; no composite over these leaves: "
    assert why(half_the_layers) == f"{none}the full leaf has 1 layers, 2 ids name them"
    assert why(OfOneKind()) == f"{none}full_kv_pool and swa_kv_pool are the same leaf"
    few = "more than one layer only"
    leaf = "the window leaf of a window pair"
    assert why(two_layers_only, "swa-page4-window-first") == f"{few}; {leaf}: {few}"


def test_an_error_of_the_composites_own_is_not_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_sides: Any, **_named: Any) -> Any:
        raise ValueError("a fault of the composite's own")

    monkeypatch.setattr("kvproto.reference.build_composite.swa_pool", broken)
    with pytest.raises(BadInput, match="a fault of the composite's own"):
        why(rows_only)


def test_other_laws_are_for_the_leaves_themselves() -> None:
    report = check_pool(rows_only, laws=["leaf", "move"])
    assert [subject.name for subject in report.subjects] == ["MHALeaf"]
    whole = by_name(check_pool(rows_only, laws=["swa.layers", "leaf.write-read", "move"]))
    assert whole["SWAPool over MHALeaf"] == {"swa.layers"}


def test_claims_are_about_the_vendors_own_pools() -> None:
    report = check_pool(
        rows_only, laws=["declaration", "swa.layers"], cannot={"SWACapable": "core builds those"}
    )
    assert report.ok
    assert any(subject.over for subject in report.subjects)


def test_a_leafs_fault_is_told_once() -> None:
    report = check_pool(toy, laws=["leaf", "transfer", "composite", "swa"])
    assert {r.law.split(".")[0] for r in report.failures} <= {"leaf", "transfer"}
    blocked = [r for r in report.results if r.subject == "SWAPool over ToyPool"]
    assert {r.status for r in blocked} == {"blocked"}
    assert all(r.note.startswith("blocked by leaf.") for r in blocked)


@pytest.mark.parametrize("spec", PAIRS, ids=lambda spec: spec.name)
def test_the_table_of_a_pair_is_one_an_allocator_could_have(spec: Any) -> None:
    """Page by page, each window page once, the reserved one its own, and some pages without."""
    bench = SWABench(spec.request, build_reference_pool(spec.request))
    page = spec.request.full.page_size
    pages = bench.table[:-1].view(-1, page)
    held = [int(row[0]) // page for row in pages if row[1:].any() or row[0] or page == 1]
    assert all(row[0] % page == 0 and row[-1] - row[0] == page - 1 for row in pages if row.any())
    peers = [each for each in held if each]
    assert len(set(peers)) == len(peers)
    assert max(peers) < bench.window.slots // page
    assert int(bench.table[0]) == 0
    assert len(bench.mapped) >= 3
    assert bench.unmapped
    if bench.window_ids:
        window = bench.window_ids[0]
        assert all(bench.slot_of(at, window) != at for at in bench.mapped[:2])
