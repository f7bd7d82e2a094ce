"""The contiguous range of global layers that a leaf owns."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["OwnedLayers"]


@dataclass(frozen=True, slots=True)
class OwnedLayers:
    """Global layer ids `start .. start + count - 1`.

    :raises ValueError: for a negative start or count.
    """

    start: int
    count: int

    def __post_init__(self) -> None:
        if self.start < 0 or self.count < 0:
            raise ValueError(
                f"start_layer={self.start}, layer_num={self.count}: must not be negative"
            )

    @classmethod
    def of(cls, layer_num: int, start_layer: int | None, end_layer: int | None) -> OwnedLayers:
        """From a constructor's keywords; `end_layer` is exclusive and may only confirm the rest.

        :raises ValueError: when `end_layer` contradicts `start_layer + layer_num`.
        """
        start = 0 if start_layer is None else start_layer
        if end_layer is not None and end_layer != start + layer_num:
            raise ValueError(
                f"end_layer={end_layer}: start_layer={start} and layer_num={layer_num} end at "
                f"{start + layer_num} (end_layer is exclusive); leave it out or correct one"
            )
        return cls(start, layer_num)

    @property
    def end(self) -> int:
        """One past the last id."""
        return self.start + self.count

    @property
    def ids(self) -> tuple[int, ...]:
        """The global ids in order."""
        return tuple(range(self.start, self.end))

    def local(self, layer_id: int) -> int:
        """The position of a global layer id in the leaf's buffers.

        :raises ValueError: for an id outside the range, instead of another layer's position.
        """
        if not self.start <= layer_id < self.end:
            raise ValueError(
                f"layer_id={layer_id} is not in this pool, which owns {self.start}..{self.end - 1}"
                if self.count
                else f"layer_id={layer_id} is not in this pool, which owns no layers"
            )
        return layer_id - self.start
