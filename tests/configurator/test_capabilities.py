"""What a platform can do is known without its device."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from kvproto.configurator import BuildError, capabilities, find_capabilities, find_platform
from kvproto.protocols import PlatformCapabilities

ACME = PlatformCapabilities(
    device_type="acme", supports_triton=False, supports_graph_capture=False, fp8_variant="none"
)
NO_FACTS = 3


def install(monkeypatch: pytest.MonkeyPatch, **plugins: str) -> None:
    points = [
        EntryPoint(name, f"{__name__}:{value}", capabilities.CAPABILITIES)
        for name, value in plugins.items()
    ]
    monkeypatch.setattr(capabilities, "entry_points", lambda group: points)


def test_facts_are_those_of_the_platform_itself() -> None:
    assert find_capabilities("cpu") is find_platform("cpu").capabilities
    assert find_capabilities("cuda").device_type == "cuda"


def test_a_plugin_states_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, acme="ACME")
    assert find_capabilities("acme") is ACME


def test_a_platform_that_states_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    assert find_capabilities("cpu") is find_platform("cpu").capabilities


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("away", "no platform 'away' in the entry point group"),
        ("odd", "is int, which is no PlatformCapabilities"),
        ("gone", "failed: AttributeError"),
    ],
)
def test_what_cannot_be_used_says_why(
    monkeypatch: pytest.MonkeyPatch, name: str, said: str
) -> None:
    install(monkeypatch, acme="ACME", odd="NO_FACTS", gone="GONE")
    with pytest.raises(BuildError) as error:
        find_capabilities(name)
    assert said in str(error.value)
