"""Whether the vendor's stack is here, told in one plain sentence where it is not."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from kvproto.adapters.musa.facts import MUSA
from kvproto.adapters.musa.platform import MusaPlatform, musa
from kvproto.configurator import BuildError, find_platform
from kvproto.protocols import Declined, Platform


def install(monkeypatch: pytest.MonkeyPatch, folder: Path, devices: int, **sources: str) -> None:
    """Packages of these sources, and a runtime with so many devices."""
    for package, source in sources.items():
        (folder / f"{package}.py").write_text(source)
        monkeypatch.delitem(sys.modules, package, raising=False)
    monkeypatch.syspath_prepend(folder)
    runtime = SimpleNamespace(is_available=lambda: devices > 0)
    monkeypatch.setattr(torch, "get_device_module", lambda device: runtime)


def reason() -> str:
    answer = musa()
    assert isinstance(answer, Declined)
    return answer.reason


def test_on_a_machine_without_the_stack() -> None:
    assert reason() == "torch_musa is not installed"
    with pytest.raises(BuildError, match="'musa' cannot be used here: torch_musa is not installed"):
        find_platform("musa")


def test_torchada_alone_is_not_enough(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(monkeypatch, tmp_path, 1, torchada="")
    assert (
        reason() == "torch_musa is not installed, and torchada alone maps torch.cuda onto nothing"
    )


@pytest.mark.parametrize("package", ["torch_musa", "torchada"])
@pytest.mark.parametrize("error", ["ImportError", "OSError", "RuntimeError", "AttributeError"])
def test_what_cannot_be_imported_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, package: str, error: str
) -> None:
    broken = f"raise {error}('libmusart.so.4: cannot open shared object file')"
    install(monkeypatch, tmp_path, 1, **({"torch_musa": ""} | {package: broken}))
    said = f"{package} is installed and cannot be imported: libmusart.so.4: cannot open shared"
    assert reason().startswith(said)


def test_an_error_without_words_is_called_by_its_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install(monkeypatch, tmp_path, 1, torch_musa="raise OSError")
    assert reason() == "torch_musa is installed and cannot be imported: OSError"


def test_without_a_device_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(monkeypatch, tmp_path, 0, torch_musa="")
    assert reason() == "torch_musa sees no device"


def test_a_package_that_registers_no_device_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As torch itself answers for a device type that nobody registered."""
    known = torch.get_device_module
    install(monkeypatch, tmp_path, 1, torch_musa="")
    monkeypatch.setattr(torch, "get_device_module", known)
    assert reason() == "torch_musa was imported and did not register 'musa' with torch"


def test_a_driver_that_does_not_answer_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install(monkeypatch, tmp_path, 1, torch_musa="")

    def is_available() -> bool:
        raise RuntimeError("musaGetDeviceCount failed: 999\nframe #0: ...")

    runtime = SimpleNamespace(is_available=is_available)
    monkeypatch.setattr(torch, "get_device_module", lambda device: runtime)
    assert reason() == "torch_musa cannot ask for its devices: musaGetDeviceCount failed: 999"


@pytest.mark.parametrize("sources", [{"torch_musa": ""}, {"torch_musa": "", "torchada": ""}])
def test_with_a_device_torchada_is_imported_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, sources: dict[str, str]
) -> None:
    install(monkeypatch, tmp_path, 1, **sources)
    platform = musa()
    assert isinstance(platform, MusaPlatform)
    assert isinstance(platform, Platform)
    assert (platform.name, platform.capabilities) == ("musa", MUSA)
    assert ("torchada" in sys.modules) is ("torchada" in sources)
    for package in sources:
        monkeypatch.delitem(sys.modules, package)
