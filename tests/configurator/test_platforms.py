"""Platforms are found by their entry points, in-tree ones as well."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any

import pytest
import torch

from kvproto.configurator import BuildError, find_platform, platforms
from kvproto.protocols import Declined
from tests.configurator.test_build import Vendor


def acme() -> Any:
    return Vendor()


def absent() -> Any:
    return Declined("no such device on this bus")


def nothing() -> Any:
    return 3


def broken() -> Any:
    raise OSError("libacme.so is missing")


def install(monkeypatch: pytest.MonkeyPatch, **plugins: str) -> None:
    in_tree = [p for p in entry_points(group=platforms.GROUP) if p.name in ("cpu", "cuda")]
    points = [EntryPoint(n, f"{__name__}:{value}", platforms.GROUP) for n, value in plugins.items()]
    monkeypatch.setattr(platforms, "entry_points", lambda group: [*in_tree, *points])
    monkeypatch.delenv(platforms.VARIABLE, raising=False)


def test_in_tree_platforms_are_entry_points_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    expected = "cuda" if torch.cuda.is_available() else "cpu"
    assert find_platform().name == expected
    assert find_platform("cpu").name == "cpu"


def test_a_plugin_with_its_device_goes_before_them(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, acme="acme", away="absent")
    assert find_platform().name == "acme"


def test_the_environment_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, acme="acme", other="acme")
    with pytest.raises(BuildError, match="platforms acme, other all have their device: choose one"):
        find_platform()
    monkeypatch.setenv(platforms.VARIABLE, "other")
    assert find_platform().name == "acme"
    assert find_platform("cpu").name == "cpu"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("npu", "no platform 'npu' in the entry point group 'kvproto.platforms'; there are"),
        ("away", "platform 'away' cannot be used here: no such device on this bus"),
        ("odd", "gave int, which is no Platform"),
        ("bad", "failed: OSError: libacme.so is missing"),
    ],
)
def test_what_cannot_be_used_says_why(
    monkeypatch: pytest.MonkeyPatch, name: str, said: str
) -> None:
    install(monkeypatch, away="absent", odd="nothing", bad="broken")
    with pytest.raises(BuildError) as error:
        find_platform(name)
    assert said in str(error.value)
