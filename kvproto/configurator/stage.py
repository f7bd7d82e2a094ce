"""One pipeline stage's share of a model's layers, by what they keep."""

from __future__ import annotations

from dataclasses import dataclass

from .options import ServingOptions
from .shape import ModelShape

__all__ = ["Stage"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Global layer ids of one stage, ascending; a layer may be in `state` and attend as well.

    `full` keep rows of the whole context, `window` rows in a pool of their own, `keyed` of the
    full ones have index keys that no earlier layer lends them.
    """

    layers: range
    full: tuple[int, ...]
    window: tuple[int, ...]
    state: tuple[int, ...]
    keyed: tuple[int, ...]

    @classmethod
    def of(cls, shape: ModelShape, layers: range, options: ServingOptions) -> Stage:
        """The stage with these layers; windowed ones are full where pools are not to be split."""
        windowed = shape.ids("sliding", "chunked") if options.window_pools else ()
        attending = shape.ids("full", "indexed", "compressed", "sliding", "chunked")
        full = tuple(i for i in attending if i in layers and i not in windowed)
        indexed = set(shape.ids("indexed")) - set(shape.reused_choice_ids)
        return cls(
            layers=layers,
            full=full,
            window=tuple(i for i in windowed if i in layers),
            state=tuple(i for i in shape.state_layer_ids if i in layers),
            keyed=tuple(i for i in full if i in indexed),
        )

    @property
    def is_contiguous(self) -> bool:
        """Whether the full layers are all there are, so that a leaf's own ids are global ones."""
        return self.full == tuple(self.layers)
