"""What callers pass to a pool beside tensors, as little as a pool may look at."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Layer", "Waits"]


@dataclass(frozen=True)
class Layer:
    """An attention layer: its global id."""

    layer_id: int = 0


@dataclass
class Waits:
    """A layer-transfer counter that notes what it was asked to wait for."""

    seen: list[int] = field(default_factory=list[int])

    def wait_until(self, threshold: int, /) -> None:
        """Returns at once."""
        self.seen.append(threshold)
