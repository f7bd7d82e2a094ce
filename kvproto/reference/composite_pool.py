"""A pool without tensors: every door leads to the leaf that owns the layer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, TypeVar

import torch
from torch import Tensor

from kvproto.protocols import AttentionLayer, KVLeaf, LayerTransferCounter, WriteLocation

from .sides import LeafLayer, LeavesMisfit, Side, SideCounter, owning, stage_of

__all__ = ["CompositePool", "P"]

P = TypeVar("P", bound="CompositePool")


class CompositePool(ABC):
    """Base of the composites: `KVPool` and `Composite` over one or two leaves.

    A subclass names the sides, and the space of a side's locations (`_locations`). What else
    a composite can depends on its leaves; each such capability is a class of its own (a part),
    and a factory makes the combination that the leaves allow.
    """

    # Declared, so that a capability check is settled on the class (see `kvproto.adopt`).
    start_layer: int
    end_layer: int
    layer_ids: tuple[int, ...]
    post_capture_active: bool = False
    """Leaves have memory from the start: nothing is left to back once graphs are captured."""
    label: ClassVar[str] = ""
    """What a part adds, for the names of combinations."""

    def __init__(
        self,
        sides: Sequence[Side],
        start_layer: int | None,
        end_layer: int | None,
        other_layer_ids: Sequence[int] = (),
    ) -> None:
        self._sides = tuple(sides)
        self._owning = owning(self._sides)
        _check_agreement(self._owning)
        self._places = {i: place for side in self._sides for i, place in side.layers()}
        self.layer_ids = tuple(sorted(self._places))
        ids = [i for side in self._sides for i in side.layer_ids]
        if len(set(ids)) != len(ids):
            raise ValueError(f"layer ids {sorted(ids)}: a layer is on two sides")
        every = [*ids, *other_layer_ids]
        self.start_layer, self.end_layer = stage_of(every, start_layer, end_layer)

    @classmethod
    def fits(cls, sides: Sequence[Side], /) -> bool:
        """Do these leaves allow what the part adds?"""
        return True

    @property
    def lead(self) -> KVLeaf:
        """The leaf whose geometry stands for the pool's: the first that owns a layer."""
        return self._owning[0].leaf

    @property
    def size(self) -> int:
        """Usable token slots of the space that callers' locations are in."""
        return self._sides[0].leaf.size

    @property
    def page_size(self) -> int:
        """Token slots per page, the same in every leaf."""
        return self._sides[0].leaf.page_size

    @property
    def dtype(self) -> torch.dtype:
        """What a stored element means, the same in every leaf that owns a layer."""
        return self.lead.dtype

    @property
    def device(self) -> torch.device | str:
        """Where the leaves' buffers are."""
        return self.lead.device

    @property
    def layer_num(self) -> int:
        """Layers that have rows of keys and values here."""
        return len(self.layer_ids)

    @property
    def full_layer_nums(self) -> int:
        """Full-attention layers of this stage."""
        return len(self._sides[0].layer_ids)

    def leaves(self) -> tuple[tuple[str, object], ...]:
        """`(role, leaf)` of every leaf, those without a layer included."""
        return tuple((side.role, side.leaf) for side in self._sides)

    def leaf_for(self, layer_id: int, /) -> tuple[KVLeaf, int]:
        """The leaf of a global layer id, and the id to ask that leaf's doors with."""
        place = self._place(layer_id)
        return place.leaf, place.layer_id

    def _place(self, layer_id: int) -> LeafLayer:
        try:
            return self._places[layer_id]
        except KeyError:
            owned = f"owns {list(self.layer_ids)}" if self.layer_ids else "owns no layers"
            raise ValueError(f"layer_id={layer_id} is not in this pool, which {owned}") from None

    @abstractmethod
    def _locations(self, place: LeafLayer, loc_info: Tensor | WriteLocation) -> Tensor:
        """What a caller passed as locations, in the space of the layer's leaf."""

    def get_key_buffer(self, layer_id: int, /) -> Tensor:
        """All key rows of a layer, as its leaf has them."""
        place = self._place(layer_id)
        return place.leaf.get_key_buffer(place.layer_id)

    def get_value_buffer(self, layer_id: int, /) -> Tensor:
        """All value rows of a layer, as its leaf has them."""
        place = self._place(layer_id)
        return place.leaf.get_value_buffer(place.layer_id)

    def get_kv_buffer(self, layer_id: int, /) -> tuple[Tensor, Tensor]:
        """Both buffers of a layer."""
        place = self._place(layer_id)
        return place.leaf.get_kv_buffer(place.layer_id)

    def set_kv_buffer(
        self,
        layer: AttentionLayer,
        loc_info: Tensor | WriteLocation,
        cache_k: Tensor,
        cache_v: Tensor,
        /,
    ) -> None:
        """Store a row per location in the leaf of `layer.layer_id`, as `KVPool` says."""
        place = self._place(layer.layer_id)
        place.leaf.set_kv_buffer(place, self._locations(place, loc_info), cache_k, cache_v)

    def register_layer_transfer_counter(
        self, layer_transfer_counter: LayerTransferCounter, /
    ) -> None:
        """Every door of the leaves waits from now on, by the layer's place in the stage."""
        for side in self._owning:
            thresholds = tuple(layer_id - self.start_layer for layer_id in side.layer_ids)
            side.leaf.register_layer_transfer_counter(
                SideCounter(layer_transfer_counter, thresholds)
            )


def _check_agreement(sides: Sequence[Side]) -> None:
    for name in ("page_size", "dtype"):
        values = {side.role: getattr(side.leaf, name) for side in sides}
        if len(set(values.values())) > 1:
            told = ", ".join(f"{role} {value}" for role, value in values.items())
            raise LeavesMisfit(f"the leaves of a composite must agree on {name}: {told}")
