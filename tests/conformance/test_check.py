"""The kit on pools with known faults, and on input it cannot use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from kvproto.cli import main
from kvproto.conformance import BadInput, check_pool, load_factory
from kvproto.conformance.capabilities import half_offered
from kvproto.protocols import Declined, HostCopyable, LeafRequest, MHALeafRequest
from kvproto.reference import MHALeaf, build_reference_leaf

from . import toys
from .plain import is_plain

HERE = __name__.rpartition(".")[0]


def test_a_toy_with_three_public_faults_has_all_three_named() -> None:
    report = check_pool(toys.build)
    details = {result.law: result.detail for result in reversed(report.failures)}
    assert "has no parameter 'mamba_indices'" in details["declaration.half-offered"]
    assert "with start_layer=8" in details["leaf.layers-owned"]
    assert "with page_size=4: expected items of 768 bytes" in details["transfer.item-len"]


def test_laws_that_would_fail_for_the_same_cause_are_blocked_not_failed() -> None:
    report = check_pool(toys.build, specs=["mha-bf16-page16-stage"])
    status = {result.law: result for result in report.results}
    assert status["leaf.layers-owned"].status == "failed"
    assert status["leaf.write-read"].status == "blocked"
    assert status["leaf.write-read"].note == "blocked by leaf.layers-owned"


def test_half_an_offer_is_charged_to_the_capability_it_is_of() -> None:
    request = MHALeafRequest(
        size=4,
        page_size=1,
        dtype=torch.bfloat16,
        head_num=1,
        head_dim=8,
        layer_num=1,
        device="cpu",
    )
    assert half_offered(toys.ToyPool(request)) == [HostCopyable]
    assert half_offered(build_reference_leaf(request)) == []


def test_a_method_set_to_none_is_no_offer() -> None:
    honest: Any = type("Honest", (toys.ToyPool,), {"get_cpu_copy": None, "load_cpu_copy": None})

    def build(request: LeafRequest) -> Any:
        declined = toys.build(request)
        if isinstance(declined, Declined) or not isinstance(request, MHALeafRequest):
            return declined
        return honest(request)

    report = check_pool(build)
    assert "declaration.half-offered" not in {r.law for r in report.failures}


def test_an_exception_of_the_pool_is_a_finding_that_says_where() -> None:
    report = check_pool(toys.build, laws=["leaf.write-location-object"], specs=["mha-bf16-page1"])
    assert "set_kv_buffer(...)" in report.failures[0].detail
    assert "toys.py:" in report.failures[0].detail


def test_laws_and_capabilities_and_specs_narrow_a_run() -> None:
    report = check_pool(build_reference_leaf, laws=["transfer"], specs=["mha-fp32-page4"])
    assert {r.law.split(".")[0] for r in report.results} == {"transfer"}
    assert [subject.specs for subject in report.subjects] == [("mha-fp32-page4",)]
    movable = check_pool(build_reference_leaf, capabilities=["Movable"])
    ids = {"move.overlap", "move.slot-zero", "move.out-of-range"}
    of_kinds = {"sync-free.move", "indexer.move", "swa.move", "sparse.move"}
    assert {r.law for r in movable.results} == ids | of_kinds


def raises(_request: LeafRequest) -> Any:
    raise RuntimeError("no driver\nand a second line")


def returns_a_number(_request: LeafRequest) -> Any:
    return 3


def returns_the_class(_request: LeafRequest) -> Any:
    return MHALeaf


def declines(_request: LeafRequest) -> Any:
    return Declined("nothing today")


def elsewhere(request: LeafRequest) -> Any:
    built = build_reference_leaf(request)
    if isinstance(built, MHALeaf):
        built.k_buffer = [buffer.to("meta") for buffer in built.k_buffer]
    return built


class Explosive(MHALeaf):
    """Its property raises, as those of half-initialised pools do."""

    @property
    def mem_usage(self) -> float:
        raise AssertionError("not allocated yet")


@pytest.mark.parametrize(
    ("factory", "words"),
    [
        (raises, "the factory raised RuntimeError: no driver for MHALeafRequest"),
        (returns_a_number, "the factory returned int"),
        (returns_the_class, "the factory returned the class MHALeaf"),
        (declines, "the factory declined every request, so no law ran: nothing today"),
        (elsewhere, "the pool's buffers are on meta"),
    ],
)
def test_a_factory_the_kit_cannot_use(
    factory: Callable[[LeafRequest], Any], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(BadInput, match=words):
        check_pool(factory)
    assert main(["check", f"{HERE}.test_check:{factory.__name__}"]) == 2
    assert_one_line(capsys, words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nosuchmodule:build"], "importing nosuchmodule failed with ModuleNotFoundError"),
        (["nocolon"], "write module:factory"),
        ([f"{HERE}.toys:nothing"], "nothing does not exist in"),
        ([f"{HERE}.toys:__name__"], "__name__ is not callable in"),
        (["--law", "leaf.nosuch"], "no law or family 'leaf.nosuch'; families: "),
        (["--capability", "Nosuch"], "no capability 'Nosuch'; there are KVPool"),
        (["--spec", "42"], "no spec '42': `kvproto laws` lists all"),
        (["--spec", "mha-bf16-page"], "no spec 'mha-bf16-page': the nearest are mha-bf16-page1"),
    ],
)
def test_bad_input_gets_one_line_and_status_2(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", *arguments]) == 2
    assert_one_line(capsys, words)


def assert_one_line(capsys: pytest.CaptureFixture[str], words: str) -> None:
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = [line for line in captured.err.splitlines() if line.startswith("kvproto: ")]
    assert len(lines) == 1
    assert words in lines[0]
    assert len(lines[0]) < 1000, "a line that a person reads"
    assert "Traceback" not in captured.err


def test_a_property_that_raises_does_not_stop_the_run() -> None:
    def build(request: LeafRequest) -> Any:
        if is_plain(request):
            return Explosive(**request.keywords())
        return Declined("K and V rows only")

    report = check_pool(build)
    assert len(report.results) > 100
    # The laws that read it say that it has no value: debug mode reads every member there is.
    assert {result.law for result in report.failures} == {
        "debug.validate",
        "memory-saver.paused",
        "size.mem-usage",
    }


def test_the_terminal_shows_verdict_failure_and_reproduction(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    target = f"{HERE}.toys:build"
    assert main(["check", target]) == 1
    shown = capsys.readouterr().out
    for words in (
        "ToyPool; 7 geometries served, ",
        " declined; bytes read through read doors",
        "half offered: get_cpu_copy: has no parameter 'mamba_indices', which callers pass",
        "✗ transfer.item-len",
        f"kvproto repro leaf.layers-owned --seed 0 --spec mha-bf16-page16-stage {target}",
        "laws broken",
    ):
        assert words in shown, shown


def test_without_arguments_every_built_in_pool_is_covered(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["check", "--law", "declaration"]) == 0
    shown = capsys.readouterr().out
    assert "kvproto check kvproto.reference.build_any:build_reference" in shown
    assert "laws kept" in shown


def test_a_capability_that_is_lacking_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--capability", "SWACapable"]) == 1
    shown = capsys.readouterr().out
    assert "register_mapping: missing" in shown
    assert "no law ran: nothing was proven" in shown


def test_laws_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["laws"]) == 0
    assert "leaf.slot-zero" in capsys.readouterr().out


def test_factories_are_found_from_the_current_directory(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "vendor_pool_here.py").write_text("def build(request):\n    return request\n")
    monkeypatch.chdir(tmp_path)
    assert callable(load_factory("vendor_pool_here:build"))
