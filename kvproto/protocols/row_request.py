"""What requests for leaves of token rows share."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from .traits import BLOCK_SCALED, SCALE_BLOCKS

if TYPE_CHECKING:
    from torch import device, dtype

    from .fallback import Fallback
    from .traits import QuantScheme

__all__ = ["RowsRequest", "at_least", "whole_pages"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsRequest:
    """The fields every leaf of token rows needs.

    `size` counts usable token slots without the reserved page and is a multiple of `page_size`:
    engines count tokens by memory and round them down to whole pages before they ask, so that no
    builder meets a last page that is short. `dtype` is what a stored element means. Layers are
    global ids `start_layer .. start_layer + layer_num - 1`; `layer_num` may be 0. `fallback` says
    who builds the leaf where a platform declines it, and is no constructor's keyword.
    """

    size: int
    page_size: int
    dtype: dtype
    layer_num: int
    device: str | device
    start_layer: int = 0
    enable_memory_saver: bool = False
    quant_scheme: QuantScheme = "none"
    fallback: Fallback = "none"

    @property
    def end_layer(self) -> int:
        """One past the last global layer id."""
        return self.start_layer + self.layer_num

    def _check(self, *positive: str) -> None:
        for name in ("size", "page_size", *positive):
            at_least(self, name, 1)
        for name in ("layer_num", "start_layer"):
            at_least(self, name, 0)
        whole_pages(self, self.size, self.page_size)
        is_fp8 = self.dtype.itemsize == 1 and self.dtype.is_floating_point
        if is_fp8 and self.quant_scheme == "none":
            raise ValueError(
                f"{type(self).__name__}.quant_scheme='none': dtype={self.dtype} is a quantised "
                "type, name its scheme (for per-tensor scales 'fp8_scaled')"
            )

    def _check_blocks(self, *widths: str) -> None:
        """Rows under block scales are of the scheme's element type, and whole blocks wide."""
        name, dtype = type(self).__name__, str(self.dtype)
        if dtype == _FP4 and self.quant_scheme not in ("fp4_mx16", "nvfp4"):
            raise ValueError(
                f"{name}.quant_scheme={self.quant_scheme!r}: dtype={dtype} is block-scaled, its "
                "schemes are 'fp4_mx16' and 'nvfp4'"
            )
        if self.quant_scheme not in BLOCK_SCALED:
            return
        element, block = _ELEMENTS[self.quant_scheme], SCALE_BLOCKS[self.quant_scheme]
        if dtype != element:
            raise ValueError(f"{name}.dtype={dtype}: {self.quant_scheme!r} stores {element}")
        for width in widths:
            value: object = getattr(self, width)
            if isinstance(value, int) and value % block:
                raise ValueError(
                    f"{name}.{width}={value}: {self.quant_scheme!r} scales whole blocks of {block}"
                )

    def _keywords(self, *left_out: str) -> dict[str, Any]:
        names = [f.name for f in fields(self) if f.name not in (*_NO_KEYWORDS, *left_out)]
        keywords: dict[str, Any] = {name: getattr(self, name) for name in names}
        return keywords | {"end_layer": self.end_layer}


_NO_KEYWORDS = ("quant_scheme", "fallback")
_FP4 = "torch.float4_e2m1fn_x2"
_ELEMENTS = {"mxfp8": "torch.float8_e4m3fn", "fp4_mx16": _FP4, "nvfp4": _FP4}


def whole_pages(request: object, size: int, page_size: int) -> None:
    if size % page_size:
        raise ValueError(
            f"{type(request).__name__}.size={size}: not a multiple of page_size={page_size}, the "
            f"last page would be short; round down to {size // page_size * page_size}"
        )


def at_least(request: object, name: str, minimum: int) -> None:
    value: object = getattr(request, name)
    if not isinstance(value, int) or value < minimum:
        raise ValueError(
            f"{type(request).__name__}.{name}={value!r}: must be an integer of at least {minimum}"
        )
