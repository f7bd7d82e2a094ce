"""Whatever a pool had to show by itself is said to be, part by part of a token."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from kvproto.conformance import check_pool
from kvproto.conformance.fallback import TWINS
from kvproto.conformance.render import print_report
from kvproto.kernels import on_host, triton_devices
from kvproto.protocols import BufferRegion, Declined, DSALeafRequest, MHALeafRequest
from kvproto.reference import build_reference_leaf

from .test_row_access import Rows, build


class Without:
    """A factory of reference leaves whose regions leave out all that have one of these fields."""

    def __init__(self, *fields: str) -> None:
        self.fields = set(fields)

    def __call__(self, request: Any) -> Any:
        if not isinstance(request, MHALeafRequest | DSALeafRequest):
            return Declined("a few kinds")
        leaf: Any = build_reference_leaf(request)
        if isinstance(leaf, Declined):
            return leaf
        fields, whole = self.fields, type(leaf).buffer_regions

        def buffer_regions(pool: Any) -> tuple[BufferRegion, ...]:
            return tuple(r for r in whole(pool) if not fields & {f.name for f in r.fields})

        leaf.__class__ = type(
            type(leaf).__name__, (type(leaf),), {"buffer_regions": buffer_regions}
        )
        return leaf


def statuses(factory: Any, law: str, spec: str, **asked: Any) -> set[str]:
    report = check_pool(factory, laws=[law], specs=[spec], **asked)
    assert report.ok, [r.detail for r in report.failures]
    return {r.status for r in report.results if r.law == law}


PARTS = [
    (("value",), "leaf.write-location-object", "mha-bf16-page1"),
    (("index_key",), "indexer.write-read", "dsa-packed-page64"),
    (("tail_key", "tail_score"), "kpool.prefill-tail", "dsa-pooled-page128-tails"),
]


@pytest.mark.parametrize(("fields", "law", "spec"), PARTS)
def test_a_part_without_a_region(fields: tuple[str, ...], law: str, spec: str) -> None:
    assert statuses(Without(), law, spec) == {"passed"}
    assert statuses(Without(*fields), law, spec) == {"passed-by-fallback"}


def test_a_vendors_eyes_have_no_name_for_block_scales() -> None:
    factory, place = Without("key_scale"), ("leaf.write-location-object", "mha-mxfp8-page16")
    assert statuses(factory, *place, row_access=Rows()) == {"passed-by-fallback"}


BUILDS_ANOTHER = ["leaf.wide-address", "memory-saver.resume", "platform.composite-over-vendor"]


@pytest.mark.parametrize("law", BUILDS_ANOTHER)
def test_a_pool_that_a_law_builds_is_looked_at_in_the_same_way(law: str) -> None:
    spec = "mha-bf16-page16-stage"
    assert statuses(build, law, spec) == {"passed-by-fallback"}
    assert statuses(build, law, spec, row_access=Rows()) == {"passed"}


def test_kernels_that_fell_back_to_torch_operations_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As on a device that has no Triton: host memory has fast paths of its own before that."""
    monkeypatch.setattr(on_host, "has_numpy", False)
    monkeypatch.setattr(triton_devices, "_wanted", {"cpu"})
    monkeypatch.setattr(triton_devices, "_lacking", lambda: "no Triton")
    law = "leaf.write-location-object"
    report = check_pool(build_reference_leaf, laws=[law], specs=["mha-bf16-page1"])
    (told,) = [r for r in report.results if r.law == law]
    assert (told.status, told.note) == ("passed-by-fallback", TWINS)
    assert [(s.by_fallback, s.by_twins) for s in report.subjects] == [(False, True)]
    console = Console(record=True, width=400, file=io.StringIO())
    print_report(report, console)
    assert TWINS in console.export_text()
