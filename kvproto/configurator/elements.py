"""Element types by name, so that a plan can be made, printed and stored without importing torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

from kvproto.protocols import ELEMENT_BYTES, ElementType, Fp8Variant, QuantScheme

if TYPE_CHECKING:
    import torch

__all__ = ["KVCacheDtype", "PlannedDtype", "planned_dtype", "stored_as"]

KVCacheDtype = Literal[
    "auto",
    "float32",
    "bfloat16",
    "float16",
    "fp8_e4m3",
    "fp8_e5m2",
    "mxfp8",
    "fp4_mx16",
    "nvfp4",
]
"""What a deployment asks its caches to be stored in; `auto` is the model's own type."""


@dataclass(frozen=True, slots=True)
class PlannedDtype:
    """What sizing asks of a torch dtype: its name, its size, whether it is a float."""

    name: ElementType

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return ELEMENT_BYTES[self.name]

    @property
    def is_floating_point(self) -> bool:
        """Whether its values are numbers with an exponent."""
        return "float" in self.name

    def __str__(self) -> str:
        return f"torch.{self.name}"


def planned_dtype(name: ElementType) -> torch.dtype:
    """The stand-in for a dtype in a request that is only sized; `build` puts torch's own in.

    Requests ask a dtype nothing that the stand-in does not answer alike.
    """
    return cast("torch.dtype", PlannedDtype(name))


def stored_as(
    asked: KVCacheDtype, model: ElementType, fp8: Fp8Variant
) -> tuple[ElementType, QuantScheme]:
    """Element and scheme for what a deployment asks.

    `fp8` is the e4m3 of the device: devices that have `e4m3fnuz` read other numbers from the
    bytes of `e4m3fn`.
    """
    match asked:
        case "auto":
            return model, "none"
        case "float32" | "bfloat16" | "float16":
            return asked, "none"
        case "fp8_e4m3":
            name: ElementType = "float8_e4m3fnuz" if fp8 == "e4m3fnuz" else "float8_e4m3fn"
            return name, "fp8_scaled"
        case "fp8_e5m2":
            return "float8_e5m2", "fp8_scaled"
        case "mxfp8":
            return "float8_e4m3fn", "mxfp8"
        case "fp4_mx16" | "nvfp4":
            return "float4_e2m1fn_x2", asked
