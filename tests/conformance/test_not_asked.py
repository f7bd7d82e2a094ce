"""A law that had nothing to ask is neither kept nor broken, and every report says so."""

# pyright: reportIncompatibleMethodOverride=false
# A leaf that takes a member back.

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from kvproto.cli import main
from kvproto.conformance import RowPart, check_pool
from kvproto.conformance.profiles import profile_verdicts
from kvproto.conformance.specs import spec_named
from kvproto.conformance.suite import PoolConformance
from kvproto.protocols import Declined, MHALeafRequest, NoOpLeafRequest, StatePoolRequest
from kvproto.reference import MHALeaf, build_reference_leaf
from kvproto.reference.build_any import build_reference

TARGET = f"{__name__}:no_saver"
SPEC = "mha-bf16-page16-stage"
PLAIN = "mha-bf16-page1"
PAUSED = "memory-saver.paused"
REASON = "the factory declines enable_memory_saver=True: no saver here"


def no_saver(request: Any) -> Any:
    """Rows by head, as built for `SPEC` and no other, without a memory saver."""
    if not isinstance(request, MHALeafRequest) or request.layout != "nhd":
        return Declined("rows by head only")
    if request.enable_memory_saver:
        return Declined("no saver here")
    if request.size > 1 << 12:
        return Declined("small ones only")
    return build_reference_leaf(request)


def fixed(request: Any) -> Any:
    """One geometry."""
    served = request == spec_named(PLAIN).request
    return build_reference_leaf(request) if served else Declined("one geometry")


def copies(request: Any) -> Any:
    """Read doors that make copies, and regions that are whole pages, by its traits."""
    leaf = no_saver(request)
    if not isinstance(leaf, Declined):
        leaf.pool_traits = replace(
            leaf.pool_traits, read_door="copy", transfer_layout="page_envelope"
        )
    return leaf


class RowsWithoutWidths(MHALeaf):
    """Neither rows by head nor latent rows, as far as its members say."""

    get_v_head_dim: None = None  # type: ignore[assignment]


def without_widths(request: Any) -> Any:
    built = no_saver(request)
    return built if isinstance(built, Declined) else RowsWithoutWidths(**request.keywords())


def whole_states(request: Any) -> Any:
    """State that no rank splits."""
    pool: Any = build_reference(request)
    if not isinstance(request, StatePoolRequest):
        return Declined("state only")
    for name in ("dim_per_tensor", "slice_outer_counts", "conv_shard_groups"):
        setattr(pool, f"get_state_{name}", list)
    return pool


def by_head(request: Any) -> Any:
    if isinstance(request, MHALeafRequest) and request.layout == "hnd":
        return build_reference_leaf(request)
    return Declined("pages by head only")


class PagesByHead:
    """Slot by slot in pages of a row of tokens per head."""

    def peek(self, pool: Any, part: RowPart, layer_id: int, slot: int, /) -> Tensor:
        return self._at(pool, part, layer_id, slot).clone()

    def poke(self, pool: Any, part: RowPart, layer_id: int, slot: int, row: Tensor, /) -> None:
        self._at(pool, part, layer_id, slot).copy_(row)

    def _at(self, pool: Any, part: RowPart, layer_id: int, slot: int) -> Tensor:
        page, token = divmod(slot, pool.page_size)
        buffers: Any = pool.k_buffer if part == "key" else pool.v_buffer
        found: Tensor = buffers[layer_id - pool.start_layer][page, :, token]
        return found


def test_rows_that_were_poked_are_not_asked_for_where_no_door_shows_them_by_slot() -> None:
    law, specs = "oracle.poke-read", ["hnd-bf16-page16-stage"]
    report = check_pool(by_head, laws=[law], specs=specs, row_access=PagesByHead())
    assert [(r.status, r.note) for r in report.results] == [
        ("not asked", "its read doors show no row by its slot")
    ]


def small_noop(request: Any) -> Any:
    if isinstance(request, NoOpLeafRequest) and request.size < 64:
        return build_reference_leaf(request)
    return Declined("small ones that keep nothing")


ASKED = [
    (no_saver, PAUSED, SPEC, REASON),
    (no_saver, "memory-saver.region", SPEC, REASON),
    (no_saver, "memory-saver.resume", SPEC, REASON),
    (no_saver, "leaf.wide-address", SPEC, "small ones only"),
    (small_noop, "noop.allocates-nothing", "noop-fp8-e4m3fn-page1", "small ones"),
    (copies, "mha.buffers", SPEC, "its read doors make copies"),
    (copies, "transfer.order", SPEC, "another order"),
    (without_widths, "traits.replication", SPEC, "neither rows by head nor latent rows"),
    (whole_states, "state.slices", "state-two-layers", "its items travel whole"),
    (build_reference, "composite.size", "hybrid-page4-state-only", "no leaf with layers"),
    (build_reference, "composite.replication", "hybrid-page4-state-only", "group of ranks"),
    (fixed, "transfer.fingerprint", PLAIN, "declines every other geometry"),
]


@pytest.mark.parametrize(("factory", "law", "spec", "reason"), ASKED)
def test_a_law_without_a_question(factory: Any, law: str, spec: str, reason: str) -> None:
    report = check_pool(factory, laws=[law], specs=[spec])
    assert [r.status for r in report.results] == ["not asked"]
    assert reason in report.results[0].note
    assert not report.failures
    assert not report.ok  # nothing was executed
    assert not report.conformant


def test_beside_kept_laws_it_is_no_failure_and_no_yes() -> None:
    report = check_pool(no_saver, laws=[PAUSED, "leaf.geometry"], specs=[SPEC])
    assert (report.ok, report.conformant) == (True, True)
    verdicts = {v.profile: v for v in profile_verdicts(report, report.subjects[0])}
    assert verdicts["attention"].answer == "yes"
    assert verdicts["memory saver"].answer == "not asked"


def test_a_consumer_is_told_which_of_its_laws_were_never_asked() -> None:
    laws = ["mha.buffers", "leaf.geometry"]
    report = check_pool(copies, laws=laws, specs=[SPEC])
    verdicts = {v.profile: v for v in profile_verdicts(report, report.subjects[0])}
    assert verdicts["attention"].lacks == "never asked: mha.buffers"


def test_an_expected_failure_that_was_not_asked_is_told() -> None:
    known = {PAUSED: "kernel 4"}
    report = check_pool(no_saver, laws=[PAUSED, "leaf.geometry"], specs=[SPEC], expected=known)
    told = {r.law: (r.status, r.note) for r in report.results}
    assert told[PAUSED] == ("not asked", f"{REASON}; said to fail: kernel 4")
    assert report.ok


def test_an_expected_failure_that_passes_elsewhere_is_unexpected() -> None:
    """Not asked of some geometries is no excuse for those that pass."""

    def some(request: Any) -> Any:
        stage = request == spec_named(SPEC).request
        return copies(request) if stage else no_saver(request)

    known = {"mha.buffers": "kernel 4"}
    report = check_pool(some, laws=["mha.buffers"], specs=[SPEC, PLAIN], expected=known)
    assert {r.spec: r.status for r in report.results} == {SPEC: "not asked", PLAIN: "unexpected"}


def test_core_laws_that_were_never_asked_are_listed() -> None:
    report = check_pool(no_saver, laws=["memory-saver", "mha.buffers"], specs=[SPEC, PLAIN])
    core = [law for _, law in report.core_never_asked]
    assert set(core) == {"memory-saver.region", PAUSED}
    some = check_pool(copies, laws=["transfer.order", "mha.buffers"], specs=[SPEC])
    assert some.core_never_asked == []  # extended ones


def test_every_report_shows_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    laws = ["--law", PAUSED, "--law", "leaf.geometry", "--spec", SPEC]
    files = {name: tmp_path / f"report.{name}" for name in ("json", "html")}
    assert main(["check", TARGET, *laws, *(f"--{n}={path}" for n, path in files.items())]) == 0
    shown = capsys.readouterr().out
    assert "all 1 law kept, 1 not asked" in shown
    assert f"· {PAUSED} not asked of MHALeaf in 1 geometry: the factory declines" in shown
    assert f"core law {PAUSED} was never asked of MHALeaf" in shown
    data = json.loads(files["json"].read_text())
    results = data["results"]
    assert data["core_never_asked"] == [{"class": "MHALeaf", "law": PAUSED}]
    assert {r["law"]: r["status"] for r in results}[PAUSED] == "not asked"
    page = files["html"].read_text()
    assert f'<i class="not-asked" title="{SPEC}: not asked">' in page
    assert REASON in page
    assert "could be asked of these pools" in page
    assert f"Core law <code>{PAUSED}</code> was never asked of MHALeaf." in page
    assert main(["check", TARGET, "--law", PAUSED, "--spec", SPEC]) == 1
    assert "no law ran" in capsys.readouterr().out


class Suite(PoolConformance):
    def make_pool(self, request: Any) -> Any:
        return no_saver(request)


def test_the_test_class_skips_it() -> None:
    with pytest.raises(pytest.skip.Exception, match="not asked: the factory declines"):
        Suite().test_law(PAUSED)
