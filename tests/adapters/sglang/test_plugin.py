"""The entry points do nothing unless asked, and say what they cannot do; sglang is not here.

What they do in sglang is seen in tests/interop/engine.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from kvproto.adapters.sglang import plugin

POINTS = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"][
    "entry-points"
]


def test_the_entry_points_lead_to_the_plugin() -> None:
    points = POINTS["sglang.srt.platforms"] | POINTS["sglang.srt.plugins"]
    assert {name: _loaded(point) for name, point in points.items()} == {
        "kvproto": plugin.activate,
        "kvproto_accounts": plugin.add_accounts,
        "kvproto_composites": plugin.add_composites,
    }


def _loaded(point: str) -> object:
    module, _, name = point.partition(":")
    return getattr(import_module(module), name)


@pytest.mark.parametrize("asked", [None, ""])
def test_nothing_happens_unless_asked(asked: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KVPROTO_SGLANG", raising=False)
    if asked is not None:
        monkeypatch.setenv("KVPROTO_SGLANG", asked)
    assert plugin.activate() is None
    plugin.add_accounts()  # would import sglang
    plugin.add_composites()


def test_a_device_without_a_platform_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVPROTO_SGLANG", "tpu")
    for entry in (plugin.activate, plugin.add_accounts, plugin.add_composites):
        with pytest.raises(ValueError, match=r"^KVPROTO_SGLANG=tpu: there is a platform for cpu$"):
            entry()


def test_asking_for_the_class_imports_nothing_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVPROTO_SGLANG", "cpu")
    assert plugin.activate() == "kvproto.adapters.sglang.plugin:CpuPlatform"
    with pytest.raises(AttributeError, match="no attribute 'GpuPlatform'"):
        plugin.GpuPlatform  # noqa: B018


def test_the_plugin_loads_neither_sglang_nor_pools() -> None:
    code = (
        "import sys, kvproto.adapters.sglang.plugin;"
        "print(*(n for n in sys.modules if n.startswith(('sglang', 'kvproto.reference'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
