"""A platform's own leaves and allocators are held to every law that binds them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from kvproto.adapters.npu.platform import on_cpu
from kvproto.cli import main
from kvproto.conformance import check_platform, check_pool
from kvproto.conformance.capability_cells import NOWHERE, Cell, capability_cells, side_by_side
from kvproto.conformance.mutants.deployments import WrongPlatform
from kvproto.conformance.mutants.kv import TokenItems
from kvproto.conformance.platform_parts import PART_SPECS, is_of_platforms, platform_laws
from kvproto.conformance.suite import PlatformConformance
from kvproto.protocols import AllocatorRequest, Declined, LeafRequest, MHALeafRequest, Platform
from kvproto.reference import MHALeaf
from kvproto.reference.build_any import build_reference
from kvproto.reference.platforms import cpu

HERE = __name__
FEW = [
    "mha-bf16-page1",
    "mha-bf16-page16-stage",
    "swa-page4-window-first",
    "alloc-page4",
    "mla-bf16-page1",
]

EXTENDS = ("alloc.extend-continues", "alloc.decode-continues")


class TokenItemsPlatform(WrongPlatform):
    """Plain rows by head, with a fault that no plan shows."""

    name = "token-items"
    kind: type[MHALeaf] = TokenItems

    def build_leaf(self, request: LeafRequest, /) -> Any:
        plain = isinstance(request, MHALeafRequest) and request.quant_scheme == "none"
        if not plain or request.layout != "nhd":
            return Declined("plain rows by head only")
        return self.kind(**request.keywords())


class LosesAPage(WrongPlatform):
    """Its pages are one fewer than were asked for."""

    def build_allocator(self, request: AllocatorRequest, /) -> Any:
        if request.kind == "token":
            return super().build_allocator(request)
        return super().build_allocator(replace(request, size=request.size - request.page_size))


class NoRegions(MHALeaf):
    """Does not say where its bytes are."""

    buffer_regions: Any = None


class NoRegionsPlatform(TokenItemsPlatform):
    kind = NoRegions


def no_regions() -> Platform:
    return NoRegionsPlatform()


class NoCopies(MHALeaf):
    """Its requests are computed again after a retraction."""

    get_cpu_copy = None  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    load_cpu_copy = None  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]


class WithoutCopies(TokenItemsPlatform):
    kind = NoCopies


def token_items() -> TokenItemsPlatform:
    return TokenItemsPlatform()


def test_parts_are_asked_every_law_that_a_factory_of_them_is() -> None:
    """The laws are those `check_pool` asks the reference's own, and composites over its leaves."""
    few = FEW[1:3]
    by_platform = check_platform(cpu(), specs=few)
    by_factory = check_pool(build_reference, specs=few)
    assert by_platform.conformant
    asked = {r.law for r in by_platform.results}
    assert {r.law for r in by_factory.results if r.subject != "SWAPool"} <= asked
    assert {s.name for s in by_platform.subjects} == {"MHALeaf", "SWAPool over MHALeaf"}
    assert not by_platform.declined
    assert {r.law for r in by_platform.results} < {law.id for law in platform_laws()}


def test_every_geometry_of_leaves_pages_and_composites_is_asked() -> None:
    kinds = {type(spec.request).__name__ for spec in PART_SPECS}
    assert kinds == {
        *("MHALeafRequest", "MLALeafRequest", "DSALeafRequest", "SparseIndexLeafRequest"),
        *("AllocatorRequest", "SWAPoolRequest", "HybridPoolRequest"),
    }
    families = {law.family for law in platform_laws() if not is_of_platforms(law)}
    assert families >= {"leaf", "alloc", "transfer", "move", "swa", "hybrid", "composite", "mla"}
    assert not families & {"state", "request", "state-slots", "swa-alloc"}


def test_a_fault_of_a_leaf_is_found_from_the_shell(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    found = tmp_path / "report.json"
    named = f"{HERE}:token_items"
    few = [part for name in FEW for part in ("--spec", name)]
    command = ["check", "--platform", named, *few, "--law", "transfer", "--json", str(found)]
    assert main(command) == 1
    shown = capsys.readouterr().out
    assert "✗  Transferable" in shown
    assert "breaks transfer.item-len" in shown
    assert "declined mla-bf16-page1: plain rows by head only" in shown
    again = f"repro transfer.item-len --seed 0 --spec mha-bf16-page16-stage --platform {named}"
    assert f"kvproto {again}" in shown
    broken = [r for r in json.loads(found.read_text())["results"] if r["status"] == "failed"]
    assert {r["class"] for r in broken} == {"TokenItems"}
    assert main(again.split()) == 1
    assert "1 of 1 law broken" in capsys.readouterr().out


def test_a_fault_of_an_allocator_is_found() -> None:
    report = check_platform(LosesAPage(), specs=["alloc-page4"], laws=["alloc"])
    assert "alloc.exhaust" in {r.law for r in report.failures}
    assert {r.subject for r in report.failures} == {"PageAllocator"}


def test_a_composite_over_the_platforms_leaves_is_blamed_on_none_of_its_own() -> None:
    report = check_platform(
        token_items(), specs=["mha-bf16-page16-stage", "swa-page4-window-first"]
    )
    assert {r.subject for r in report.failures} == {"TokenItems"}
    over = [r for r in report.results if r.subject == "SWAPool over TokenItems"]
    assert {r.status for r in over} >= {"passed", "blocked"}


def test_each_capability_is_kept_broken_declined_or_not_offered() -> None:
    cells = capability_cells(check_platform(WithoutCopies(), specs=FEW[1:]))
    assert cells["KVLeaf"].state == cells["SWAComposite"].state == "kept"
    assert cells["PagedAllocator"] == Cell("kept", laws=EXTENDS)
    assert cells["MLALatent"] == Cell("declined", (), "plain rows by head only")
    assert cells["HostCopyable"].state == "not offered"
    assert cells["HostCopyable"].why.startswith("NoCopies: get_cpu_copy: ")
    assert cells["IndexerCapable"] == Cell("not judged", (), "not asked for in this run")
    wrong = capability_cells(check_platform(token_items(), specs=FEW[1:2], laws=["transfer"]))
    broken = ("transfer.item-len", "transfer.regions", "transfer.loopback")
    assert wrong["Transferable"] == Cell("broken", broken)
    known: dict[str, str] = dict.fromkeys(broken, "next quarter")
    announced = check_platform(token_items(), specs=FEW[1:2], laws=["transfer"], expected=known)
    assert announced.ok
    assert capability_cells(announced)["Transferable"].state == "known"


def test_what_one_platform_alone_has_is_nowhere_on_the_others() -> None:
    """Index keys in rows are kept by no part of the reference."""
    ascend = check_platform(on_cpu(), specs=["dsa-split-packed-page64"], laws=["declaration"])
    here = check_platform(cpu(), specs=["mha-bf16-page1"], laws=["declaration"])
    cells = side_by_side({"npu": ascend, "cpu": here})
    assert cells["cpu"]["IndexKeyRows"] is NOWHERE
    assert cells["npu"]["IndexKeyRows"] is not NOWHERE
    assert list(cells["cpu"]) == list(cells["npu"])


class TestTokenItems(PlatformConformance):
    """Parts and a model in a vendor's own test suite."""

    specs = ("alloc-page4", "llama-page1")
    expected: ClassVar = {
        f"alloc.{law}": "next quarter" for law in ("exhaust", "range", "clear", "size")
    }

    def make_platform(self) -> Platform:
        return LosesAPage()


def test_a_leaf_that_declares_no_regions_was_its_own_witness(
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = ["check", "--platform", f"{HERE}:no_regions", "--law", "leaf"]
    assert main([*command, "--spec", "mha-bf16-page1"]) == 0
    assert "kept; bytes read through read doors\n" in capsys.readouterr().out
