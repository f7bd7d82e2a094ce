"""What the platform says of itself, and of a machine without its device."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from kvproto.adapters import vendor_packages
from kvproto.adapters.npu import platform
from kvproto.adapters.npu.facts import NPU, PAGE_SIZE
from kvproto.adapters.npu.platform import NPUPlatform, npu, on_cpu
from kvproto.protocols import AllocatorRequest, Declined, MHALeafRequest, Platform, supports


def reason(answer: object) -> str:
    assert isinstance(answer, Declined)
    return answer.reason


def installed(monkeypatch: pytest.MonkeyPatch, module: object) -> None:
    """As if importing torch_npu gave this, or raised it."""

    def imported(name: str) -> Any:
        assert name == "torch_npu"
        if isinstance(module, Exception):
            raise module
        return module

    monkeypatch.setattr(platform, "find_spec", lambda _name: object())
    monkeypatch.setattr(vendor_packages, "import_module", imported)


def seeing(devices: int) -> ModuleType:
    module: Any = ModuleType("torch_npu")
    module.npu = SimpleNamespace(is_available=lambda: devices > 0)
    made: ModuleType = module
    return made


def test_what_is_absent_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "torch_npu" not in sys.modules
    assert reason(npu()) == "torch_npu is not installed"
    installed(monkeypatch, ImportError("libascendcl.so: cannot open shared object file"))
    assert reason(npu()).endswith(
        "cannot be imported: libascendcl.so: cannot open shared object file"
    )
    installed(monkeypatch, seeing(0))
    assert reason(npu()) == "torch_npu sees no Ascend device"


def test_a_stack_that_is_broken_is_an_absent_one(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, RuntimeError("it wants torch 2.14, this is another\nand a trace"))
    assert reason(npu()).endswith("cannot be imported: it wants torch 2.14, this is another")

    def unanswered() -> bool:
        raise RuntimeError("drvGetDevNum failed 507899\n[ERROR] and more")

    module: Any = seeing(1)
    module.npu = SimpleNamespace(is_available=unanswered)
    installed(monkeypatch, module)
    told = "torch_npu cannot tell whether there is an Ascend device: drvGetDevNum failed 507899"
    assert reason(npu()) == told
    installed(monkeypatch, ModuleType("torch_npu"))  # something else of that name
    assert reason(npu()).startswith("torch_npu cannot tell whether there is an Ascend device: ")


def test_where_the_device_is_the_platform_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, seeing(8))
    assert npu() == NPUPlatform() == on_cpu()


def test_it_is_a_platform_without_triton_that_registers_by_2_mib() -> None:
    made = on_cpu()
    assert supports(made, Platform)
    assert made.capabilities is NPU
    assert not NPU.supports_triton
    assert NPU.registration_alignment == 2**21
    assert PAGE_SIZE == 128


def test_pages_are_lent_by_torch_operations() -> None:
    request = AllocatorRequest(kind="paged", size=3 * PAGE_SIZE, page_size=PAGE_SIZE, device="cpu")
    lent = on_cpu().build_allocator(request)
    assert not isinstance(lent, Declined)
    slots = lent.alloc(PAGE_SIZE)
    assert slots is not None
    assert slots.dtype == torch.int64


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"layout": "vectorized_5d"}, "layout='vectorized_5d' and quant_scheme='none'; built: "),
        (
            {"dtype": torch.float8_e4m3fn, "quant_scheme": "mxfp8"},
            "quant_scheme='mxfp8'; built: 'nhd' or 'paged_nhd' with 'none' or 'fp8_scaled'",
        ),
        (
            {"dtype": torch.float8_e5m2, "quant_scheme": "fp8_scaled"},
            "torch.float8_e5m2: fp8 of Ascend devices is float8_e4m3fn",
        ),
    ],
)
def test_rows_that_it_does_not_build_are_declined_by_name(
    changed: dict[str, Any], told: str
) -> None:
    asked: dict[str, Any] = {
        "size": 256,
        "page_size": 128,
        "dtype": torch.bfloat16,
        "head_num": 2,
        "head_dim": 64,
        "layer_num": 1,
        "device": "cpu",
    }
    assert told in reason(on_cpu().build_leaf(MHALeafRequest(**(asked | changed))))
