"""The conformance kit with pools on a device: what it sees there is what it sees in host memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from kvproto._bad_input import BadInput
from kvproto.adapters.npu.platform import npu
from kvproto.cli import main
from kvproto.conformance import LAWS, check_platform, check_pool
from kvproto.conformance.mutants import MUTANTS
from kvproto.conformance.report import Report
from kvproto.protocols import Declined, MHALeafRequest, WriteLocation
from kvproto.reference import MHALeaf
from kvproto.reference.build_any import build_reference

PARTS = {
    "mha-bf16-page16-stage": 60,
    "mla-bf16-page64-stage": 65,
    "dsa-packed-page64": 80,
    "mha-fp4-mx16-page16": 55,
    "swa-page16-fp8": 60,
    "hybrid-page1": 45,
    "state-drafts": 15,
    "alloc-page4": 15,
}
"""Laws that bind each, at least, so that none is lost unseen."""

HOST_ONLY = {
    "leaf.out-of-range",
    "move.out-of-range",
    "swa.translate-range",
    "leaf.wide-address",
    "indexer.wide-address",
    "memory-saver.paused",
    "memory-saver.resume",
    "memory-saver.resume-state",
    "transfer.loopback",
}


FAULTY_FAMILIES = (
    *("leaf", "transfer", "host-copy", "move", "fp8", "oracle", "mla", "indexer", "traits"),
    *("write", "host-tier", "swa", "hybrid", "state", "alloc"),
)


def broken(report: Report) -> set[str]:
    return {result.law for result in report.failures}


@pytest.mark.parametrize("spec", PARTS)
def test_reference_pools_keep_the_laws_on_a_device(spec: str) -> None:
    report = check_pool(build_reference, specs=[spec], device="npu:0")

    assert not report.failures, [result.detail for result in report.failures]
    assert report.device == "npu:0"
    asked = [result for result in report.results if result.status != "not asked"]
    assert len(asked) >= PARTS[spec]
    passed_over = {r.law for r in report.not_asked if "of host memory alone" in r.note}
    assert passed_over <= HOST_ONLY


def test_every_subject_is_there() -> None:
    """What the kit looked at was on the device, and not a copy in host memory."""
    seen: set[str] = set()

    def build(request: Any) -> Any:
        pool = build_reference(request)
        seen.add(str(pool.get_key_buffer(pool.start_layer).device))
        return pool

    check_pool(build, specs=["mha-bf16-page16-stage"], laws=["leaf"], device="npu:0")

    assert seen == {"npu:0"}


@pytest.mark.parametrize("family", FAULTY_FAMILIES)
def test_faulty_pools_are_found_on_a_device(family: str) -> None:
    """A mutant of each family, by the law that it names."""
    mutant = next(
        each
        for each in MUTANTS
        if LAWS[each.kills].family == family and not LAWS[each.kills].host_only
    )

    report = mutant.check(mutant.factory, laws=[mutant.kills], device="npu:0", **mutant.asked)

    assert broken(report) == {mutant.kills}


class ForgetsItsDevice(MHALeaf):
    """Makes what it writes with where torch makes it: right on the CPU, an error on a device."""

    def set_kv_buffer(
        self, layer: Any, loc_info: Tensor | WriteLocation, *rest: Any, **more: Any
    ) -> None:
        loc = loc_info if isinstance(loc_info, Tensor) else loc_info.loc
        super().set_kv_buffer(layer, loc + torch.zeros(1, dtype=loc.dtype), *rest, **more)


class WritesOtherBytes(MHALeaf):
    """Stores the rows of the first slot once more, which read doors do not show as such."""

    def set_kv_buffer(self, layer: Any, loc_info: Any, *rest: Any, **more: Any) -> None:
        super().set_kv_buffer(layer, loc_info, *rest, **more)
        self.k_buffer[0].view(torch.uint8).flatten()[-1] = 7


def factory_of(cls: type[MHALeaf]) -> Any:
    def build(request: Any) -> Any:
        match request:
            case MHALeafRequest(layout="nhd", quant_scheme="none"):
                return cls(**request.keywords())
            case _:
                return Declined("rows by head only")

    return build


def test_a_pool_that_forgets_its_device_is_found_there_alone() -> None:
    """The kit's own tensors are on the device, whatever others make stays where it was made."""
    asked: dict[str, Any] = {"specs": ["mha-bf16-page16-stage"], "laws": ["leaf"]}
    build = factory_of(ForgetsItsDevice)

    assert check_pool(build, **asked).ok
    report = check_pool(build, **asked, device="npu:0")

    assert "leaf.write-read" in broken(report)
    assert any("same device" in result.detail for result in report.failures)


def test_bytes_of_the_device_are_looked_at() -> None:
    report = check_pool(
        factory_of(WritesOtherBytes), specs=["mha-bf16-page16-stage"], device="npu:0"
    )

    assert "leaf.write-read" in broken(report)


def test_a_pool_elsewhere_is_refused() -> None:
    def build(request: Any) -> Any:
        return build_reference(replace(request, device="npu:1"))

    with pytest.raises(BadInput, match=r"buffers are on npu:1, the request said device='npu:0'"):
        check_pool(build, specs=["mha-bf16-page1"], device="npu:0")


def test_a_device_that_is_not_there_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["check", "kvproto.reference:build_reference_leaf", "--device", "musa:0"])

    assert status == 2
    assert "--device musa:0: no tensor can be made there" in capsys.readouterr().err


def test_the_command_names_the_device(capsys: pytest.CaptureFixture[str]) -> None:
    what = ["kvproto.reference:build_reference_leaf", "--spec", "mha-bf16-page1"]

    status = main(["check", *what, "--law", "transfer", "--device", "npu"])

    assert status == 0
    shown = capsys.readouterr().out
    assert "kvproto check kvproto.reference:build_reference_leaf --device npu:0" in shown


OF_THE_PLATFORM = [
    "mla-split-nz-bf16-page128-stage",
    "paged-nhd-bf16-page128-stage",
    "dsa-split-packed-page64",
    "alloc-page64",
]


def test_the_platform_of_the_device_keeps_the_laws_there() -> None:
    """By the stand-in for the vendor's operators, which the platform is detected by."""
    platform = npu()
    assert not isinstance(platform, Declined)

    report = check_platform(platform, specs=OF_THE_PLATFORM, device="npu:0")

    assert not report.failures, [(r.spec, r.law, r.detail) for r in report.failures]
    assert not report.declined
    assert {spec for subject in report.subjects for spec in subject.specs} == {*OF_THE_PLATFORM}
