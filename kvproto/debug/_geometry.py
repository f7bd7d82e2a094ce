"""What a pool says of itself, and the tensor checks that follow from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import torch

from kvproto.protocols import KVLeaf, KVPool, PoolTraits, supports

from ._describe import describe, dtype_name
from ._tensors import Fault, matches, shape_text, too_large

__all__ = ["Geometry"]

T = TypeVar("T")

_LATENT = ("mla", "dsa")
_PLAIN = ("none", "fp8_scaled")
_LOCATION_TYPES = (torch.int32, torch.int64)


@dataclass(frozen=True, slots=True)
class Geometry:
    """The numbers tensors are compared with; None where the pool does not tell."""

    device: str | None
    dtype: torch.dtype | None
    locations: int | None
    head_num: int | None
    head_dim: int | None
    v_head_dim: int | None
    layout: str | None
    is_latent: bool
    stores_plain_rows: bool
    reads_copies: bool

    @classmethod
    def of(cls, pool: object) -> Geometry:
        """Read from the pool's public members, anew for each call: pools may be resized.

        Shapes of rows are a leaf's: a composite has leaves that may differ in theirs.
        """
        traits = _typed(pool, "pool_traits", PoolTraits)
        is_leaf = supports(pool, KVLeaf)
        device = getattr(pool, "device", None)
        return cls(
            device=None if device is None else str(device),
            dtype=_typed(pool, "dtype", torch.dtype),
            locations=_locations(pool, traits),
            head_num=_number(pool, "head_num") if is_leaf else None,
            head_dim=_number(pool, "head_dim") if is_leaf else None,
            v_head_dim=_number(pool, "v_head_dim") if is_leaf else None,
            layout=_layout(pool, traits) if is_leaf else None,
            is_latent=traits.kind in _LATENT if traits else hasattr(pool, "kv_lora_rank"),
            stores_plain_rows=traits is None or traits.quant_scheme in _PLAIN,
            reads_copies=traits is not None and traits.read_door != "alias",
        )

    def token_locations(self, argument: str, value: torch.Tensor) -> Fault | None:
        """`[n]`, int32 or int64, on the pool's device, every one below `locations`."""
        if value.dim() != 1:
            return Fault(argument, "an int32 or int64 tensor of rank 1", describe(value))
        return self.integers(argument, value, self.locations)

    def integers(self, argument: str, value: torch.Tensor, stop: int | None) -> Fault | None:
        """The same in whatever shape, every one below `stop`."""
        if value.dtype not in _LOCATION_TYPES:
            return Fault(argument, "an int32 or int64 tensor", describe(value))
        return self.on_device(argument, value) or too_large(argument, value, stop)

    def rows(self, argument: str, value: torch.Tensor, n: int, width: int | None) -> Fault | None:
        """`[n, heads, width]` of a float type, on the pool's device."""
        wanted = [n, self.head_num, width]
        if value.dim() != 3 or not matches(value.shape, wanted):
            return Fault(argument, f"shape {shape_text(wanted)}", describe(value))
        if not value.dtype.is_floating_point and self.stores_plain_rows:
            return Fault(argument, "a float dtype", describe(value))
        return self.on_device(argument, value)

    def buffer(self, argument: str, value: torch.Tensor, width: int | None) -> Fault | None:
        """A layer as a read door returns it: on the device, shaped by the layout.

        In `dtype`, unless the pool declares that its doors return something else.
        """
        if self.dtype is not None and value.dtype != self.dtype and not self.reads_copies:
            return Fault(argument, f"dtype {dtype_name(self.dtype)}", describe(value))
        wanted = self._buffer_shape(width)
        if wanted is not None and not matches(value.shape, wanted):
            return Fault(argument, f"shape {shape_text(wanted)}", describe(value))
        return self.on_device(argument, value)

    def on_device(self, argument: str, value: torch.Tensor) -> Fault | None:
        """On the pool's device; a device without an index, `cuda`, stands for each of them."""
        kind, _, index = (self.device or value.device.type).partition(":")
        if kind == value.device.type and index in ("", str(value.device.index or 0)):
            return None
        return Fault(argument, f"a tensor on {self.device}", describe(value))

    def _buffer_shape(self, width: int | None) -> list[int | None] | None:
        if self.layout in ("nhd", "page_envelope"):
            return [self.locations, self.head_num, width]
        if self.layout == "hnd":
            return [None, self.head_num, None, width]
        if self.layout == "paged_nhd":
            return [None, None, self.head_num, width]
        if self.layout == "latent_rows":
            return [self.locations, 1, width]
        return None


def _locations(pool: object, traits: PoolTraits | None) -> int | None:
    if not supports(pool, KVPool):
        return None
    if traits and (traits.id_space != "physical" or traits.rows_are != "tokens"):
        return None
    size, page_size = _number(pool, "size"), _number(pool, "page_size")
    return None if size is None or page_size is None else size + page_size


def _layout(pool: object, traits: PoolTraits | None) -> str | None:
    """The declared layout; pools older than traits name it themselves, or hold plain heads."""
    if traits is not None:
        return traits.layout
    has_heads = hasattr(pool, "head_num") and hasattr(pool, "head_dim")
    return _typed(pool, "kv_cache_layout", str) or ("nhd" if has_heads else None)


def _number(pool: object, name: str) -> int | None:
    return _typed(pool, name, int)


def _typed(pool: object, name: str, kind: type[T]) -> T | None:
    value = getattr(pool, name, None)
    return value if isinstance(value, kind) else None
