"""What a composite is built from: requests for its leaves, and which layers live in which.

No platform is asked for a composite: it builds the leaves, and any two of them will do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeAlias

from .requests import LeafRequest

if TYPE_CHECKING:
    from torch import device, dtype

__all__ = ["HybridPoolRequest", "PoolRequest", "SWAPoolRequest", "StatePoolRequest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatePoolRequest:
    """Recurrent state of some layers, by slot.

    `size` counts usable slots without the reserved one. `mamba_layer_ids` are global ids.
    `conv_state_shape` has one shape per convolution, without layer and slot; a temporal state
    of no element stands for layers that are convolutions only. `conv_slice_axis` is the axis of
    a convolution that ranks split, None where every rank has it whole; `conv_shard_groups` the
    unsplit lengths of the blocks on that axis, None for one block. With
    `speculative_num_draft_tokens` there is scratch for that many tokens of `spec_state_size`
    requests, None meaning as many as slots.

    :raises ValueError: for counts below their minimum, ids or shapes that cannot be.
    """

    size: int
    mamba_layer_ids: tuple[int, ...]
    conv_state_shape: tuple[tuple[int, ...], ...]
    temporal_state_shape: tuple[int, ...]
    conv_dtype: dtype
    ssm_dtype: dtype
    device: str | device
    enable_memory_saver: bool = False
    speculative_num_draft_tokens: int | None = None
    spec_state_size: int | None = None
    conv_slice_axis: int | None = 0
    conv_shard_groups: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("size", "speculative_num_draft_tokens", "spec_state_size"):
            value: object = getattr(self, name)
            optional = value is None and name != "size"
            if not optional and (not isinstance(value, int) or value < 1):
                raise _wrong(self, name, "must be an integer of at least 1")
        _check_ids(self, "mamba_layer_ids", self.mamba_layer_ids)
        if any(not shape or min(shape) < 1 for shape in self.conv_state_shape):
            raise _wrong(self, "conv_state_shape", "every length must be at least 1")
        if not self.temporal_state_shape or min(self.temporal_state_shape) < 0:
            raise _wrong(self, "temporal_state_shape", "lengths must not be negative")
        axis = self.conv_slice_axis
        if axis is not None and any(not 0 <= axis < len(s) for s in self.conv_state_shape):
            raise _wrong(self, "conv_slice_axis", "must be an axis of every convolution's shape")

    def keywords(self) -> dict[str, Any]:
        """Keyword arguments for a constructor of the field's own shape."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class SWAPoolRequest:
    """A full leaf and a window leaf behind one door.

    The leaves may differ in kind, heads and widths, and either may have no layer. They share
    page size, dtype and device. `full_attention_layer_ids[i]` is the global id of the full
    leaf's i-th layer, `swa_attention_layer_ids[i]` that of the window leaf's: a leaf's own
    `start_layer` is no global id here and may stay 0.

    :raises ValueError: for ids that do not fit the leaves, or leaves that do not fit together.
    """

    full: LeafRequest
    window: LeafRequest
    full_attention_layer_ids: tuple[int, ...]
    swa_attention_layer_ids: tuple[int, ...]

    def __post_init__(self) -> None:
        _check_side(self, "full_attention_layer_ids", self.full_attention_layer_ids, self.full)
        _check_side(self, "swa_attention_layer_ids", self.swa_attention_layer_ids, self.window)
        both = sorted(set(self.full_attention_layer_ids) & set(self.swa_attention_layer_ids))
        if both:
            raise _wrong(self, "swa_attention_layer_ids", f"{both} are full layers too")
        for name in ("page_size", "dtype", "device"):
            full: object = getattr(self.full, name)
            if str(full) != str(getattr(self.window, name)):
                wanted = f"must have {name}={full}, as the full leaf has"
                raise ValueError(f"SWAPoolRequest.window={self.window!r}: {wanted}")


@dataclass(frozen=True, slots=True, kw_only=True)
class HybridPoolRequest:
    """A leaf for the attention layers, beside the state of the recurrent ones.

    `full_attention_layer_ids[i]` is the global id of the leaf's i-th layer; those of the state
    are `state.mamba_layer_ids`. A layer may be in both: some attend and recur side by side.

    :raises ValueError: for ids that do not fit the leaf.
    """

    full: LeafRequest
    state: StatePoolRequest
    full_attention_layer_ids: tuple[int, ...]

    def __post_init__(self) -> None:
        _check_side(self, "full_attention_layer_ids", self.full_attention_layer_ids, self.full)


PoolRequest: TypeAlias = LeafRequest | SWAPoolRequest | HybridPoolRequest
"""Whatever can be the pool of a model: a leaf, or a composite of leaves."""


def _check_side(request: object, name: str, ids: tuple[int, ...], leaf: LeafRequest) -> None:
    _check_ids(request, name, ids)
    if len(ids) != leaf.layer_num:
        raise _wrong(request, name, f"its leaf is asked for with layer_num={leaf.layer_num}")


def _check_ids(request: object, name: str, ids: Sequence[object]) -> None:
    if any(not isinstance(layer_id, int) or layer_id < 0 for layer_id in ids):
        raise _wrong(request, name, "global layer ids are integers of at least 0")
    if len(set(ids)) != len(ids):
        raise _wrong(request, name, "a layer is named twice")


def _wrong(request: object, name: str, why: str) -> ValueError:
    return ValueError(f"{type(request).__name__}.{name}={getattr(request, name)!r}: {why}")
