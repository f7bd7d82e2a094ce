"""The platform: what it builds, and whether its device is here."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.util import find_spec

import torch

from kvproto.protocols import Declined, LeafRequest
from kvproto.reference import ReferencePlatform

from ..core_platform import CorePlatform
from ..vendor_packages import UNUSABLE, first_line, imported
from .facts import DEVICE_TYPE, MUSA
from .fp8_check import RowsOfFp8, fp8_fault, rows_of_fp8
from .refusals import refusal

__all__ = ["MusaPlatform", "musa", "on_cpu"]


@dataclass(frozen=True, slots=True)
class MusaPlatform(CorePlatform):
    """Leaves and allocators of the core, for what kernels of these devices read.

    The first leaf of each kind that stores fp8 on a device has a row of that kind read back before
    it is built, which waits for the device; no other does, and no leaf ever does when it is used.
    What is found is kept; an error that says nothing of the rows, as of memory that is out, is
    raised by `build_leaf` as the device has it (`RuntimeError`), and the next leaf is tried anew.
    """

    core: ReferencePlatform = field(default_factory=lambda: ReferencePlatform("musa", MUSA))
    _faults: dict[tuple[str, RowsOfFp8], str] = field(
        default_factory=dict[tuple[str, RowsOfFp8], str], repr=False, compare=False
    )

    def _refusal(self, request: LeafRequest) -> str:
        return refusal(request) or self._fp8_fault(request)

    def _fp8_fault(self, request: LeafRequest) -> str:
        for rows in rows_of_fp8(request):
            if fault := self._fault_of(str(request.device), rows):
                return f"{fault}: update torch_musa and its Triton, or store rows in 16 bits"
        return ""

    def _fault_of(self, device: str, rows: RowsOfFp8) -> str:
        known = self._faults.get((device, rows))
        if known is None:
            self.core.follow()
            known = self._faults[device, rows] = fp8_fault(device, rows)
        return known


def musa() -> MusaPlatform | Declined:
    """The platform, where torch_musa is installed and sees a device.

    torchada is imported where it is installed, which has `torch.cuda` mean these devices for all
    of the process, as engines for them expect. Pools say `musa` and need no torchada.
    """
    if find_spec("torch_musa") is None:
        return Declined(_without_torch_musa())
    wanted = ["torch_musa", *(["torchada"] if find_spec("torchada") else [])]
    for package in wanted:
        if isinstance(answer := imported(package), Declined):
            return answer
    return _with_device()


def _with_device() -> MusaPlatform | Declined:
    try:
        runtime = torch.get_device_module(DEVICE_TYPE)
    except RuntimeError:  # torch knows no device type of that name
        return Declined(f"torch_musa was imported and did not register {DEVICE_TYPE!r} with torch")
    try:
        sees_one = bool(runtime.is_available())
    except UNUSABLE as error:
        return Declined(f"torch_musa cannot ask for its devices: {first_line(error)}")
    return MusaPlatform() if sees_one else Declined("torch_musa sees no device")


def on_cpu() -> MusaPlatform:
    """What `musa` builds, over host memory: for the conformance kit on a machine without one."""
    return MusaPlatform()


def _without_torch_musa() -> str:
    if find_spec("torchada") is None:
        return "torch_musa is not installed"
    return "torch_musa is not installed, and torchada alone maps torch.cuda onto nothing"
