"""A vendor's peek and poke are the kit's eyes where a pool declares no regions."""

# pyright: reportIncompatibleMethodOverride=false
# Leaves that keep their regions to themselves.

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from kvproto.cli import main
from kvproto.conformance import RowPart, check_pool
from kvproto.conformance.suite import PoolConformance
from kvproto.protocols import Declined, DSALeafRequest, MHALeafRequest, MLALeafRequest
from kvproto.reference import DSALeaf, MHALeaf, MLALeaf

HERE = "tests.conformance.test_row_access"
LAWS = ("oracle.poke-peek", "oracle.poke-read", "oracle.peek-regions", "oracle.no-doors")
SPECS = ["mha-bf16-page16-stage", "mha-fp8-e4m3fn-page16", "dsa-packed-page64", "dsa-bf16-page1"]
PAIRS = ["swa-page4-window-first"]


class Rows:
    """Slot by slot in the tensors of the reference leaves, index pages counted by hand."""

    def peek(self, pool: Any, part: RowPart, layer_id: int, slot: int, /) -> Tensor:
        return self._at(pool, part, layer_id - pool.start_layer, slot).clone()

    def poke(self, pool: Any, part: RowPart, layer_id: int, slot: int, row: Tensor, /) -> None:
        self._at(pool, part, layer_id - pool.start_layer, slot).copy_(row)

    def _at(self, pool: Any, part: RowPart, local: int, slot: int) -> Tensor:
        if part in ("key", "value"):
            return self._rows(pool, part, local)[slot]
        page, token = divmod(slot, pool.page_size)
        width: int = pool.index_head_dim
        start, length = token * width, width
        if part == "index_scale":
            start, length = pool.page_size * width + 4 * token, 4
        found: Tensor = pool.index_k_with_scale_buffer[local][page, start : start + length]
        return found.view(torch.float32)[0] if part == "index_scale" else found

    def _rows(self, pool: Any, part: RowPart, local: int) -> Tensor:
        if isinstance(pool, MHALeaf):
            return (pool.k_buffer if part == "key" else pool.v_buffer)[local].view(pool.dtype)
        rows: Tensor = pool.kv_buffer[local]
        packed = rows.shape[-1] != pool.kv_lora_rank + pool.qk_rope_head_dim
        return rows if packed else rows.view(pool.dtype)


class MHAWithoutRegions(MHALeaf):
    buffer_regions: None = None  # type: ignore[assignment]


class DSAWithoutRegions(DSALeaf):
    buffer_regions: None = None  # type: ignore[assignment]


def build(request: Any) -> Any:
    match request:
        case MHALeafRequest(layout="nhd", quant_scheme="none" | "fp8_scaled"):
            return MHAWithoutRegions(**request.keywords())
        case DSALeafRequest(layout="latent_rows", index_kpool=1, index_layout="token_rows"):
            return DSAWithoutRegions(**request.keywords())
        case _:
            return Declined("rows by head and sparse attention's only")


def build_with_regions(request: Any) -> Any:
    match request:
        case MHALeafRequest(layout="nhd", quant_scheme="none" | "fp8_scaled"):
            return MHALeaf(**request.keywords())
        case DSALeafRequest(layout="latent_rows", index_kpool=1, index_layout="token_rows"):
            return DSALeaf(**request.keywords())
        case MLALeafRequest(quant_scheme="none" | "fp8_scaled"):
            return MLALeaf(**request.keywords())
        case _:
            return Declined("leaves only")


def test_laws_read_through_it() -> None:
    laws = ["leaf.write-read", "mla.packed-blocks", "indexer.move", "indexer.wide-address"]
    laws += ["leaf.wide-address", "move", "swa.write-full"]
    with_eyes = check_pool(build, laws=laws, specs=[*SPECS, *PAIRS], row_access=Rows())
    assert with_eyes.ok, [r.detail for r in with_eyes.failures]
    assert {r.status for r in with_eyes.results} == {"passed"}
    assert {s.by_fallback for s in with_eyes.subjects} == {False}
    without = check_pool(build, laws=["leaf.write-read"], specs=SPECS)
    assert {r.status for r in without.results} == {"passed-by-fallback"}


def test_it_is_held_to_account_where_there_are_regions_too() -> None:
    report = check_pool(build_with_regions, laws=list(LAWS), row_access=Rows())
    assert report.ok, [r.detail for r in report.failures]
    assert {r.law for r in report.results} == set(LAWS)
    assert {r.spec.split("-")[0] for r in report.results} == {"mha", "mla", "dsa"}


def test_its_laws_bind_nothing_where_none_is_offered() -> None:
    report = check_pool(build_with_regions, laws=["oracle"])
    assert not {r.law for r in report.results} & set(LAWS)


class WrongWriter(MHAWithoutRegions):
    """Stores a row too far, and shows it shifted back: unseen through its own doors."""

    def set_kv_buffer(self, layer: Any, loc_info: Any, *rows: Any, **named: Any) -> None:
        loc = loc_info if isinstance(loc_info, Tensor) else loc_info.loc
        last = self.size + self.page_size
        super().set_kv_buffer(layer, torch.where(loc > 0, (loc + 1) % last, loc), *rows, **named)

    def get_key_buffer(self, layer_id: int, /) -> Tensor:
        return super().get_key_buffer(layer_id).roll(-1, 0)

    def get_value_buffer(self, layer_id: int, /) -> Tensor:
        return super().get_value_buffer(layer_id).roll(-1, 0)


def build_wrong(request: Any) -> Any:
    plain = isinstance(request, MHALeafRequest) and request.quant_scheme == "none"
    if plain and request.layout == "nhd":
        return WrongWriter(**request.keywords())
    return Declined("one fault")


def test_it_sees_what_the_doors_hide() -> None:
    asked: dict[str, Any] = {"laws": ["leaf.write-location-object"], "specs": [SPECS[0]]}
    assert check_pool(build_wrong, **asked).ok
    assert not check_pool(build_wrong, row_access=Rows(), **asked).ok


class Suite(PoolConformance):
    row_access = Rows()

    def make_pool(self, request: Any) -> Any:
        return build(request)


def test_as_a_test_class() -> None:
    Suite().test_law("oracle.no-doors")  # skips where nothing was offered


def test_from_the_shell(capsys: pytest.CaptureFixture[str]) -> None:
    narrowed = ["--law", "leaf.write-location-object", "--spec", SPECS[0]]
    eyes = ["--row-access", f"{HERE}:Rows"]
    assert main(["check", f"{HERE}:build_wrong", *narrowed, *eyes]) == 1
    shown = capsys.readouterr().out
    assert f"--spec {SPECS[0]} --row-access {HERE}:Rows {HERE}:build_wrong" in shown
    assert main(["check", f"{HERE}:build", *narrowed, *eyes]) == 0
    assert main(["check", f"{HERE}:build", *narrowed, "--row-access", f"{HERE}:build"]) == 2
    assert "it has no peek and no poke" in capsys.readouterr().err


class RegionsRaise(MHALeaf):
    def buffer_regions(self) -> Any:
        raise RuntimeError("no address yet")


def build_raising(request: Any) -> Any:
    if isinstance(request, MHALeafRequest) and request.layout == "nhd":
        return RegionsRaise(**request.keywords())
    return Declined("one kind")


def test_regions_that_raise_are_a_finding() -> None:
    laws = ["leaf.write-read", "transfer.regions"]
    report = check_pool(build_raising, laws=laws, specs=SPECS[:1])
    assert [r.status for r in report.results] == ["passed-by-fallback", "failed"]
    assert "no address yet" in report.failures[0].detail


class DeclaresNothing(MHALeaf):
    """Its regions are none, not those of its rows."""

    def buffer_regions(self) -> Any:
        return ()


def build_declaring_nothing(request: Any) -> Any:
    plain = isinstance(request, MHALeafRequest) and request.quant_scheme == "none"
    if plain and request.layout == "nhd":
        return DeclaresNothing(**request.keywords())
    return Declined("one kind")


def test_an_empty_declaration_is_none() -> None:
    asked: dict[str, Any] = {"laws": ["leaf.write-location-object"], "specs": SPECS[:1]}
    report = check_pool(build_declaring_nothing, **asked)
    assert [r.status for r in report.results] == ["passed-by-fallback"]
    assert [s.by_fallback for s in report.subjects] == [True]
    seen = check_pool(build_declaring_nothing, row_access=Rows(), **asked)
    assert [r.status for r in seen.results] == ["passed"]


def test_a_law_that_reads_no_row_needs_no_fallback() -> None:
    report = check_pool(build, laws=["leaf.geometry"], specs=SPECS)
    assert {r.status for r in report.results} == {"passed"}
    assert {s.by_fallback for s in report.subjects} == {False}
