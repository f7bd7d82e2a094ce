"""What plugins for Ascend devices got wrong in calls of the vendor's operators, in our own adapter.

Each is one name of `kvproto.adapters.npu.operators` replaced. In host memory nothing of it is
called, so that only a device shows it: here the emulated one, whose stand-ins for the operators
demand what is documented. Run there it prints what the kit says of each, as JSON:

    python -m tests.devices.emulate npu -m tests.devices.npu_faults
"""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from torch import Tensor

from kvproto.adapters.npu import operators
from kvproto.adapters.npu.platform import npu, on_cpu
from kvproto.conformance import check_platform
from kvproto.protocols import Declined

__all__ = ["NPU_FAULTS", "NPUFault", "said_by_the_kit"]

SPECS = ("paged-nhd-bf16-page128-stage", "mla-split-bf16-page128-stage", "dsa-split-packed-page64")


@dataclass(frozen=True, slots=True, eq=False)
class NPUFault:
    """`told` says what the plugin did; `name` of the operators' module is `wrong` instead."""

    title: str
    told: str
    name: str
    wrong: Any


def unsigned(stored: Tensor) -> Tensor:
    """Bytes as they are."""
    return stored


NPU_FAULTS: tuple[NPUFault, ...] = (
    NPUFault(
        "DefaultCacheMode",
        "rows in ND order scattered in the operator's default mode, which is `PA_NZ`",
        "_CACHE_MODE",
        {"nd": "PA_NZ", "nz": "PA_NZ"},
    ),
    NPUFault(
        "UnsignedBytes",
        "fp8 rows scattered as uint8, which no operator takes, instead of a view as int8",
        "signed",
        unsigned,
    ),
)


def said_by_the_kit(fault: NPUFault | None, device: str) -> list[str]:
    """Law and finding where this is wrong, of each geometry in which the law is broken."""
    platform = on_cpu() if device == "cpu" else npu()
    assert not isinstance(platform, Declined)
    with patch.object(operators, fault.name, fault.wrong) if fault else nullcontext():
        report = check_platform(platform, specs=SPECS, laws=["leaf.write-read"], device=device)
    return [f"{each.law}: {each.detail}" for each in report.failures]


def main() -> None:
    """What is said on the device."""
    print(json.dumps({each.title: said_by_the_kit(each, "npu:0") for each in NPU_FAULTS}))


if __name__ == "__main__":
    main()
