"""The tensors of recurrent layers: convolution windows, temporal state, speculative scratch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

__all__ = ["RecurrentState", "SpeculativeState", "StateShapes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecurrentState:
    """What a recurrent layer keeps per slot: `[layers, slots, ...]`, or `[slots, ...]` of one."""

    conv: list[Tensor]
    temporal: Tensor

    def at_layer(self, index: int) -> RecurrentState:
        """The same for one layer, by its position; aliases."""
        return RecurrentState(conv=[t[index] for t in self.conv], temporal=self.temporal[index])

    def persistent(self) -> list[Tensor]:
        """The tensors that belong to a state slot: what is cleared, copied and transferred."""
        return [*self.conv, self.temporal]

    def all_tensors(self) -> list[Tensor]:
        """Every tensor there is."""
        return self.persistent()


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeculativeState(RecurrentState):
    """The state, and what verification leaves of it after each draft token.

    The intermediate tensors are `[layers, request rows, draft tokens, ...]`: scratch of a
    running request, indexed by its row and not by its state slot.
    """

    intermediate_ssm: Tensor
    intermediate_conv_window: list[Tensor]

    def at_layer(self, index: int) -> SpeculativeState:
        """The same for one layer, by its position; aliases."""
        return SpeculativeState(
            conv=[t[index] for t in self.conv],
            temporal=self.temporal[index],
            intermediate_ssm=self.intermediate_ssm[index],
            intermediate_conv_window=[t[index] for t in self.intermediate_conv_window],
        )

    def all_tensors(self) -> list[Tensor]:
        """Every tensor there is, the scratch included."""
        return [*self.persistent(), self.intermediate_ssm, *self.intermediate_conv_window]


@dataclass(frozen=True, slots=True)
class StateShapes:
    """What one slot of one layer holds: some convolution windows and a temporal state.

    :raises ValueError: for a negative length, or a window of no element. A temporal state of
        no element is legal: layers that are convolutions only have none.
    """

    conv: tuple[tuple[int, ...], ...]
    temporal: tuple[int, ...]
    conv_dtype: torch.dtype
    temporal_dtype: torch.dtype

    def __post_init__(self) -> None:
        for shape in self.conv:
            if not shape or min(shape) < 1:
                raise ValueError(f"conv shape {shape}: every length must be at least 1")
        if not self.temporal or min(self.temporal) < 0:
            raise ValueError(f"temporal shape {self.temporal}: lengths must not be negative")

    def allocate(self, *leading: int, device: torch.device) -> tuple[list[Tensor], Tensor]:
        """Zeroed windows and temporal state, with these axes in front."""

        def zeros(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
            return torch.zeros((*leading, *shape), dtype=dtype, device=device)

        windows = [zeros(shape, self.conv_dtype) for shape in self.conv]
        return windows, zeros(self.temporal, self.temporal_dtype)

    @property
    def slot_bytes(self) -> int:
        """Bytes of one slot in one layer."""
        windows = sum(prod(shape) for shape in self.conv) * self.conv_dtype.itemsize
        return windows + prod(self.temporal) * self.temporal_dtype.itemsize
