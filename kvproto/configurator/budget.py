"""How many bytes of a device the caches may have."""

from __future__ import annotations

from dataclasses import dataclass

from .option_values import check_count, check_number
from .plan_error import PlanError

__all__ = ["MemoryBudget"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryBudget:
    """What is free once the weights are loaded, less what must stay free.

    `free_bytes` is free now, with the weights of model and draft resident; `total_bytes` was
    free before any were loaded. `static_fraction` of the latter is for weights and caches, the
    rest for activations and graphs. `reserved_bytes` are taken after the caches are sized:
    embeddings of images, transport buffers.
    """

    free_bytes: int
    total_bytes: int
    static_fraction: float = 0.9
    reserved_bytes: int = 0

    def __post_init__(self) -> None:
        check_number("static_fraction", self.static_fraction)
        if not 0 < self.static_fraction <= 1:
            raise PlanError(
                "static_fraction",
                self.static_fraction,
                "it is a share of the device's memory",
                "give more than 0 and at most 1",
            )
        for name in ("free_bytes", "total_bytes", "reserved_bytes"):
            check_count(name, getattr(self, name), least=0, why="bytes are counted from 0")

    @classmethod
    def of_caches(cls, cache_bytes: int) -> MemoryBudget:
        """A budget of exactly these bytes, nothing held back."""
        return cls(free_bytes=cache_bytes, total_bytes=cache_bytes, static_fraction=1.0)

    @property
    def held_back_bytes(self) -> int:
        """Bytes left free for activations and graphs."""
        return int(self.total_bytes * (1 - self.static_fraction))

    @property
    def cache_bytes(self) -> int:
        """Bytes for everything that a plan allocates.

        :raises PlanError: where nothing is left, with the least fraction that leaves something.
        """
        left = self.free_bytes - self.held_back_bytes - self.reserved_bytes
        if left > 0:
            return left
        least = 1 - (self.free_bytes - self.reserved_bytes) / max(self.total_bytes, 1)
        raise PlanError(
            "static_fraction",
            self.static_fraction,
            f"of {self.free_bytes} free bytes, {self.held_back_bytes} are held back and "
            f"{self.reserved_bytes} reserved: nothing is left for caches",
            f"give more than {least:.3f}" if least < 1 else "use a device with more memory",
        )
