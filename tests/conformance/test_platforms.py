"""A platform held to the laws about whole models: from the shell, from code, in a test suite."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from kvproto.cli import main
from kvproto.configurator import example_names
from kvproto.conformance import BadInput, check_platform
from kvproto.conformance.mutants.deployments import WrongPlatform
from kvproto.conformance.platform_named import load_platform
from kvproto.conformance.platform_parts import is_of_platforms, platform_laws
from kvproto.conformance.specs.models import MODEL_SPECS, MODELS
from kvproto.conformance.suite import PlatformConformance, PoolConformance
from kvproto.protocols import Declined, LeafRequest, MHALeafRequest, Platform
from kvproto.reference import MHALeaf
from kvproto.reference.platforms import cpu

from .test_row_access import Rows
from .test_row_access import build as without_regions

HERE = __name__
FEW = ["llama-page1", "gpt_oss-page16-hnd", "qwen3_next-page64-fp8", "llama-real"]


class Forgetful(WrongPlatform):
    """Reports the layout that it was asked for, and builds rows token by token."""

    name = "forgetful"

    def build_leaf(self, request: LeafRequest, /) -> Any:
        if not isinstance(request, MHALeafRequest) or request.quant_scheme != "none":
            return Declined("plain rows by head only")
        keywords = replace(request, layout="nhd").keywords()
        leaf = MHALeaf(**keywords)
        leaf.pool_traits = replace(leaf.pool_traits, layout=request.layout)
        return leaf


def forgetful() -> Forgetful:
    return Forgetful()


def absent() -> Declined:
    return Declined("no such device")


def nothing() -> int:
    return 3


def test_the_matrix_is_every_model_in_every_way_it_is_served() -> None:
    assert set(example_names()) < set(MODELS)
    ways = {spec.name.removeprefix(f"{spec.request.model}-") for spec in MODEL_SPECS}
    assert len(MODEL_SPECS) == len(MODELS) * len(ways)
    assert len({spec.name for spec in MODEL_SPECS}) == len(MODEL_SPECS)
    options = [spec.request.options for spec in MODEL_SPECS]
    assert {o.page_size for o in options} >= {1, 16, 64, 128, 256}
    assert {o.kv_cache_dtype for o in options} >= {"auto", "fp8_e4m3", "fp4_mx16", "mxfp8", "nvfp4"}
    # None is the platform's own, `nhd` where it states none.
    assert {o.layout for o in options} >= {None, "hnd", "paged_nhd", "vectorized_5d"}
    assert {o.latent_layout for o in options} == {None, "latent_split_nz"}
    assert {o.role for o in options} == {"unified", "prefill", "decode"}
    assert {spec.request.device for spec in MODEL_SPECS} == {"cpu", "meta"}
    assert {spec.request.pp_rank for spec in MODEL_SPECS} == {0, 1}


def test_every_law_about_platforms_is_asked_of_the_cpu() -> None:
    report = check_platform(cpu(), specs=[*FEW, "deepseek_v4-page1"])
    assert report.ok
    assert report.conformant
    assert {r.law for r in report.results} == {
        law.id for law in platform_laws() if is_of_platforms(law)
    }
    assert [s.name for s in report.subjects] == ["llama", "gpt_oss", "qwen3_next", "deepseek_v4"]


def test_real_sizes_are_built_without_a_byte() -> None:
    report = check_platform(cpu(), specs=["llama-real"], laws=["builder.bytes", "builder.layout"])
    assert [r.status for r in report.results] == ["passed", "passed"]


def test_a_layout_that_was_reported_and_not_built_is_found_from_the_shell(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    found = tmp_path / "report.json"
    page = tmp_path / "report.html"
    named = f"{HERE}:forgetful"
    few = [part for name in FEW for part in ("--spec", name)]
    command = ["check", "--platform", named, *few, "--json", str(found), "--html", str(page)]
    assert main(command) == 1
    shown = capsys.readouterr().out
    assert "2 models in 3 deployments" in shown
    assert "1 declined" in shown
    assert "declined qwen3_next-page64-fp8: plain rows by head only" in shown
    assert "expected  hnd keys of shape" in shown
    again = f"kvproto repro builder.layout --seed 0 --spec gpt_oss-page16-hnd --platform {named}"
    assert again in shown
    data = json.loads(found.read_text())
    broken = {(r["law"], r["class"]) for r in data["results"] if r["status"] == "failed"}
    assert broken == {("builder.layout", "gpt_oss")}
    assert again in page.read_text()
    assert main(again.split()[1:]) == 1
    assert "builder.layout" in capsys.readouterr().out


def test_models_are_shown_by_law(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["check", "--platform", "cpu", "--spec", "llama-page1", "--spec", "gpt_oss-page1"]
    assert main([*command, "--law", "builder.bytes", "--law", "builder.views"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = {words[0]: words[1:] for line in lines if (words := line.split())}
    assert rows["model"] == ["1", "2"]
    assert rows["llama"] == rows["gpt_oss"] == ["✓", "✓"]


def test_claims_are_about_the_pools_that_are_built() -> None:
    few: dict[str, Any] = {"specs": FEW[:2], "laws": ["declaration", "builder.views"]}
    claims = {"KVPool", "SWAComposite", "HybridComposite"}
    report = check_platform(cpu(), claims=claims, **few)
    broken = [r.law for r in report.failures]
    assert broken == ["declaration.claims"]
    assert "HybridComposite claimed, but not detected" in report.failures[0].detail


class Undeclared(WrongPlatform):
    """Its leaves declare no regions."""

    def build_leaf(self, request: LeafRequest, /) -> Any:
        return without_regions(request)


def test_rows_are_read_with_the_vendors_own_eyes_where_it_lends_some() -> None:
    asked: dict[str, Any] = {"specs": ["llama-page1", "deepseek_v32-page64-fp8"]}
    report = check_platform(Undeclared(), row_access=Rows(), **asked)
    assert report.conformant
    assert {r.status for r in report.results} == {"passed"}
    assert report.again(report.results[0]).endswith(
        "--spec llama-page1 --row-access tests.conformance.test_row_access:Rows --platform wrong"
    )
    by_doors = {
        r.law for r in check_platform(Undeclared(), **asked).results if r.status != "passed"
    }
    assert by_doors == {"builder.write-read"}


def test_known_failures_are_expected_by_law() -> None:
    known = {"builder.layout": "next quarter"}
    report = check_platform(forgetful(), specs=FEW, expected=known)
    assert report.ok
    assert not report.conformant
    with pytest.raises(BadInput, match=r"builder\.state: it binds none"):
        check_platform(forgetful(), specs=FEW[:1], expected={"builder.state": "never"})


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("tpu", "no platform 'tpu'; the entry point group 'kvproto.platforms' has "),
        (f"{HERE}:absent", "cannot be used here: no such device"),
        (f"{HERE}:nothing", "gave int, which is no Platform"),
        (f"{HERE}:missing", "missing does not exist"),
        (f"{HERE}:Forgetful.name", "does not exist"),
    ],
)
def test_what_is_no_platform_is_one_line(
    name: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "--platform", name]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["acme:build"], "leave out the factory"),
        (["--law", "state"], "state: no law about what a platform builds"),
        (["--spec", "mha-bf16"], "no geometry or deployment 'mha-bf16': the nearest are mha-bf16-"),
        (["--spec", "llama-page"], "'llama-page': the nearest are llama-page1, "),
        (["--spec", "state-two-layers"], "is of what the core builds on every platform"),
    ],
)
def test_what_cannot_be_asked_of_a_platform_is_refused(
    more: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "--platform", "cpu", *more]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error) < 500, "a line that a person reads"


def test_real_sizes_are_not_asked_of_leaves_that_take_memory_for_them() -> None:
    class Heedless(WrongPlatform):
        def build_leaf(self, request: LeafRequest, /) -> Any:
            return super().build_leaf(replace(request, device="cpu"))

    with pytest.raises(BadInput, match="leaves for the meta device take memory"):
        check_platform(Heedless(), specs=["llama-real"])


def test_a_platform_that_declines_everything_proves_nothing() -> None:
    class Declines(WrongPlatform):
        def build_leaf(self, request: LeafRequest, /) -> Any:
            return Declined("not today")

    with pytest.raises(BadInput, match="everything was declined, so no law ran: not today"):
        check_platform(Declines(), specs=FEW[:2])


def test_an_instance_is_a_platform_as_it_is() -> None:
    assert load_platform(f"{HERE}:ON_HAND").platform is ON_HAND


ON_HAND: Platform = cpu()


class TestForgetful(PlatformConformance):
    """The class that vendors subclass, on a platform that is wrong as it says."""

    specs = ("llama-page1", "llama-page16-hnd", "qwen3_next-page16-hnd", "deepseek_v4-page1")
    cannot: ClassVar = {"KeyOnly": "every leaf has values"}
    expected: ClassVar = {"builder.layout": {"reason": "kernel 4", "until": "2999-01-01"}}

    def make_platform(self) -> Platform:
        return forgetful()


@pytest.mark.parametrize("suite", [PlatformConformance, PoolConformance])
def test_a_test_of_the_kit_is_not_replaced(suite: type) -> None:
    with pytest.raises(TypeError, match="the kit's tests are not overridden"):
        type("Mine", (suite,), {"test_law": lambda self, law: None})
