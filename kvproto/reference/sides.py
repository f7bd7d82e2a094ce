"""One leaf of a composite, and the global ids of the layers that live in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kvproto.protocols import Composite, KVLeaf, LayerTransferCounter, require, supports

__all__ = ["LeafLayer", "LeavesMisfit", "Side", "SideCounter", "owning", "stage_of"]


class LeavesMisfit(ValueError):
    """No composite can be built over these leaves, whatever its layers are called."""


@dataclass(frozen=True, slots=True)
class LeafLayer:
    """Where a layer lives: the leaf, and the id that the leaf's doors take.

    It is handed to the leaf in place of the caller's layer object, which keeps its own id.
    """

    layer_id: int
    leaf: KVLeaf
    role: str


@dataclass(frozen=True, slots=True)
class Side:
    """A leaf under its role; `layer_ids[i]` is the global id of the leaf's i-th layer.

    :raises CapabilityError: for what is no leaf.
    :raises LeavesMisfit: for a composite, or another number of ids than the leaf has layers.
    :raises ValueError: for ids that repeat or are negative.
    """

    role: str
    leaf: KVLeaf
    layer_ids: tuple[int, ...]

    def __post_init__(self) -> None:
        require(self.leaf, KVLeaf, for_=f"the {self.role} side of a composite")
        ids, held = self.layer_ids, self.leaf.layer_num
        if supports(self.leaf, Composite):
            raise LeavesMisfit(f"the {self.role} side is a composite itself; give its leaves")
        if len(ids) != held:
            raise LeavesMisfit(f"the {self.role} leaf has {held} layers, {len(ids)} ids name them")
        if len(set(ids)) != len(ids) or any(layer_id < 0 for layer_id in ids):
            raise ValueError(f"{self.role} layer ids {list(ids)}: none twice, none negative")

    def layers(self) -> Iterable[tuple[int, LeafLayer]]:
        """Global id and place of every layer."""
        for index, layer_id in enumerate(self.layer_ids):
            yield layer_id, LeafLayer(self.leaf.start_layer + index, self.leaf, self.role)

    def global_id(self, leaf_id: int) -> int:
        """The global id of a layer that the leaf calls `leaf_id`."""
        return self.layer_ids[leaf_id - self.leaf.start_layer]


def owning(sides: Sequence[Side]) -> tuple[Side, ...]:
    """The sides that own a layer; all of them where none does. A leaf may be there for form."""
    return tuple(side for side in sides if side.layer_ids) or tuple(sides)


@dataclass(frozen=True, slots=True)
class SideCounter:
    """Waits for a leaf's layer by the threshold that the layer has in the whole stage.

    Given to the leaf, so that each of its doors waits, also for a reader that asks it directly.
    """

    counter: LayerTransferCounter
    thresholds: tuple[int, ...]

    def wait_until(self, threshold: int, /) -> None:
        """Return when the leaf's layer at position `threshold` is loaded."""
        self.counter.wait_until(self.thresholds[threshold])


def stage_of(
    layer_ids: Sequence[int], start_layer: int | None, end_layer: int | None
) -> tuple[int, int]:
    """First id and one past the last: those given, else just around the layers; (0, 0) if none.

    :raises ValueError: for bounds that leave a layer out.
    """
    first, last = min(layer_ids, default=start_layer or 0), max(layer_ids, default=-1)
    start = first if start_layer is None else start_layer
    end = max(last + 1, start) if end_layer is None else end_layer
    if not 0 <= start <= first or end <= last or end < start:
        raise ValueError(
            f"start_layer={start}, end_layer={end} (exclusive): the stage has to hold the layers "
            f"{sorted(layer_ids)}"
        )
    return start, end
