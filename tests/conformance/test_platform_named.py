"""Which platform a name means to the kit: on its device, or in host memory."""

from __future__ import annotations

import json
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from kvproto.cli import main
from kvproto.configurator.platforms import GROUP
from kvproto.conformance import BadInput, platform_named
from kvproto.conformance.platform_facts import listed_platforms
from kvproto.conformance.platform_named import ON_CPU, load_platform, platform_names
from kvproto.protocols import Declined
from kvproto.reference.platforms import cpu


def here() -> Any:
    return cpu()


def absent() -> Any:
    return Declined("libacme is not installed")


def nothing() -> Any:
    return 3


def broken() -> Any:
    raise OSError("libacme.so is missing")


@pytest.fixture(autouse=True)
def points(monkeypatch: pytest.MonkeyPatch) -> None:
    """`big` is several devices, as `rocm` is."""
    named = {
        GROUP: {
            "near": "here",
            "far": "absent",
            "big": "absent",
            "lone": "absent",
            "odd": "nothing",
        },
        ON_CPU: {
            "far": "here",
            "big-2": "here",
            "big-1": "here",
            "empty": "absent",
            "bad": "broken",
        },
    }

    def entry_points(group: str) -> list[EntryPoint]:
        return [EntryPoint(n, f"{__name__}:{value}", group) for n, value in named[group].items()]

    monkeypatch.setattr(platform_named, "entry_points", entry_points)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("near", ""),
        (
            "far",
            "no device here (libacme is not installed); pools are built in host memory",
        ),
        (
            "big",
            "no device here (libacme is not installed); pools are built in host memory, as big-1's "
            "(or name big-2)",
        ),
        (
            "big-2",
            "no device here (libacme is not installed); pools are built in host memory",
        ),
        (f"{__name__}:here", ""),
    ],
)
def test_a_name_is_a_device_or_host_memory_and_says_which(name: str, place: str) -> None:
    found = load_platform(name)
    assert found.platform.name == "cpu"
    assert found.place == place


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "neither",
            "no platform 'neither'; the entry point group 'kvproto.platforms' has big, far, lone, "
            "near, odd, and 'kvproto.on_cpu' bad, big-1, big-2, empty, far",
        ),
        ("lone", "'lone' has no device here (libacme is not installed), and the entry point group"),
        ("empty", "platform 'empty' in host memory: libacme is not installed"),
        ("bad", "of the group 'kvproto.on_cpu' failed: OSError: libacme.so is missing"),
        ("odd", "gave int, which is no Platform"),
    ],
)
def test_what_cannot_be_used_says_why(name: str, said: str) -> None:
    with pytest.raises(BadInput) as error:
        load_platform(name)
    assert said in str(error.value)


def test_what_is_several_is_named_by_each() -> None:
    names = ["bad", "big-1", "big-2", "empty", "far", "lone", "near", "odd"]
    assert platform_names() == names


def test_the_shell_says_that_there_is_no_device(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    report = tmp_path / "report.json"
    command = ["check", "--platform", "far", "--spec", "mha-bf16-page1", "--law", "move"]
    assert main([*command, "--json", str(report)]) == 0
    place = "no device here (libacme is not installed); pools are built in host memory"
    assert json.loads(report.read_text())["place"] == place
    shown = capsys.readouterr().out
    line = "far: no device here (libacme is not installed); pools are built in host memory\n"
    assert shown.startswith(f"kvproto check --platform far\n{line}")


def test_platforms_are_listed_with_what_is_absent() -> None:
    listed = {each.name: each for each in listed_platforms()}
    absent = {name: each.absent for name, each in listed.items()}
    assert absent["near"] == ""
    assert absent["far"] == absent["big-1"] == absent["lone"] == "libacme is not installed"
    assert absent["bad"] == "nothing installed looks for it"
    assert "gave int" in absent["odd"]
    assert listed["far"].facts == cpu().capabilities
    assert listed["lone"].facts is None


def test_several_platforms_are_shown_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--spec", "mha-bf16-page1", "--law", "move"]
    assert main(["check", "--platform", "near", "--platform", "far", *few]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["capability", "near", "far"] in lines
    assert ["Movable", "✓", "3", "✓", "3"] in lines
    assert not any(line[:1] == ["IndexerCapable"] for line in lines)


def test_all_platforms_but_those_that_cannot_be_built(capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--spec", "mha-bf16-page1", "--law", "move"]
    assert main(["check", "--platform", "all", *few]) == 0
    shown = capsys.readouterr().out
    assert "lone: not checked: platform 'lone' has no device here" in shown
    lines = [line.split() for line in shown.splitlines()]
    assert ["capability", "big-1", "big-2", "far", "near"] in lines
    assert main(["check", "--platform", "near", "--platform", "lone", *few]) == 2
    assert main(["check", "--platform", "all", "--json", "report.json"]) == 2
    assert "name one platform" in capsys.readouterr().err


def test_the_list_of_platforms_in_the_shell(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["platforms"]) == 0
    lines = capsys.readouterr().out.splitlines()
    words = [" ".join(line.split()) for line in lines]
    assert "near yes cpu 1 e4m3fn no no packed, raw 1 B leaves" in words
    assert "far no cpu 1 e4m3fn no no packed, raw 1 B leaves" in words
    assert "far is not here: libacme is not installed" in words
