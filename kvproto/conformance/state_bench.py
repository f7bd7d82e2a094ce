"""A pool of recurrent state on the bench: its tensors by name, its slots by address."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, cast

import torch
from torch import Tensor

from kvproto.protocols import BufferRegion, StatePool, StatePoolRequest

from .bench import Bench
from .broken import LawBroken
from .oracle import peek, regions_of

__all__ = ["StateBench", "named_tensors"]


class StateBench(Bench):
    """State tensors are filled as kernels do it, through `mamba_cache`, and read by address.

    Addresses are those of the declared regions; where there are none, of the tensors themselves.
    """

    request: StatePoolRequest
    pool: Any

    def __init__(self, request: StatePoolRequest, pool: Any, seed: int = 0) -> None:
        super().__init__(request, pool, seed)
        self._regions: tuple[BufferRegion, ...] | None = regions_of(pool)

    @classmethod
    def suits(cls, pool: object) -> bool:
        """Is it a pool of state by slot?"""
        return isinstance(pool, StatePool)

    @property
    def slots(self) -> int:
        """Slots of a tensor, the reserved one included."""
        return self.request.size + 1

    @property
    def layers(self) -> int:
        """Recurrent layers asked for."""
        return len(self.request.mamba_layer_ids)

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """What a slot of one layer holds, tensor by tensor; what has no element is left out."""
        asked = (*self.request.conv_state_shape, self.request.temporal_state_shape)
        return [tuple(shape) for shape in asked if 0 not in shape]

    @property
    def slot_bytes(self) -> int:
        """Bytes of one slot in all layers."""
        conv = sum(torch.Size(s).numel() for s in self.request.conv_state_shape)
        temporal = torch.Size(self.request.temporal_state_shape).numel()
        widths = self.request.conv_dtype.itemsize, self.request.ssm_dtype.itemsize
        return self.layers * (conv * widths[0] + temporal * widths[1])

    def tensors(self) -> dict[str, Tensor]:
        """The tensors that belong to a slot, by name: `[layers, slots, ...]`.

        Scratch of speculative decoding belongs to request rows and is left out.
        """
        named = named_tensors(self.pool.mamba_cache)
        return {k: t for k, t in named.items() if "intermediate" not in k and t.numel()}

    def scratch(self) -> dict[str, Tensor]:
        """The tensors of draft tokens, by name: `[layers, request rows, draft tokens, ...]`."""
        named = named_tensors(self.pool.mamba_cache)
        return {k: t for k, t in named.items() if "intermediate" in k and t.numel()}

    def fill(self, slot: int, value: float) -> None:
        """Set every element of a slot, in every tensor of every layer."""
        for tensor in self.tensors().values():
            tensor[:, slot] = value

    def bytes_of(self, slot: int) -> list[bytes]:
        """The bytes of a slot: tensor by tensor, layer by layer."""
        if not self._regions:
            each = [
                layer[slot].contiguous() for tensor in self.tensors().values() for layer in tensor
            ]
            if each:
                self.fallback.note()
            return [peek(t.data_ptr(), t.nbytes) for t in each]
        return [
            peek(region.page_address(layer_id, slot), region.bytes_per_page)
            for region in self._regions
            for layer_id in region.layer_ids
        ]

    def expect_zero(self, call: str, slot: int) -> None:
        """Every byte of the slot is zero.

        :raises LawBroken: naming the tensors that are not.
        """
        self._expect(call, slot, "zero", [bytes(len(data)) for data in self.bytes_of(slot)])

    def expect_slot(self, call: str, slot: int, expected: list[bytes], what: str) -> None:
        """The slot holds these bytes, which are `what`.

        :raises LawBroken: naming the tensors that do not.
        """
        self._expect(call, slot, what, expected)

    def expect_layer_ids(
        self, call: str, ids: list[int], infos: tuple[list[int], list[int], list[int]]
    ) -> None:
        """Each entry of these descriptors holds the layer that `ids` names for it.

        :raises LawBroken: naming the ids, and those of the layers that are there.
        """
        pointers, _, items = infos
        found: list[int | None] = [None] * len(pointers)
        for position, layer_id in enumerate(self.request.mamba_layer_ids):
            self.fill(1, 0.0)
            for tensor in self.tensors().values():
                tensor[position, 1] = 3.0
            for index, (pointer, item) in enumerate(zip(pointers, items, strict=True)):
                if any(peek(pointer + item, item)):
                    found[index] = layer_id
        self.fill(1, 0.0)
        self.expect(call, expected=found, got=list(ids))

    def _expect(self, call: str, slot: int, what: str, expected: list[bytes]) -> None:
        found = self.bytes_of(slot)
        names = [f"{name} of layer {i}" for name in self.tensors() for i in range(self.layers)]
        wrong = [
            name for name, got, wanted in zip(names, found, expected, strict=True) if got != wanted
        ]
        if wrong:
            told = f"slot {slot}: every tensor {what}"
            raise LawBroken(call, expected=told, got=f"not so in {', '.join(wrong)}")


def named_tensors(cache: object) -> dict[str, Tensor]:
    """Every tensor that an object holds, lists and mappings among its members opened."""
    members = _members(cache)
    found: dict[str, Tensor] = {}
    for name, value in members.items():
        inside = cast("list[object]", value) if isinstance(value, (list, tuple)) else [value]
        for index, each in enumerate(inside):
            if isinstance(each, Tensor):
                found[f"{name}[{index}]" if inside is value else name] = each
    return found


def _members(cache: object) -> Mapping[str, object]:
    if isinstance(cache, Mapping):
        return cast("Mapping[str, object]", cache)
    if is_dataclass(cache):
        return {field.name: getattr(cache, field.name) for field in fields(cache)}
    return vars(cache)
