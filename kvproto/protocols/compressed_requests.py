"""A pool whose rows stand for several tokens each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .row_request import at_least, whole_pages

if TYPE_CHECKING:
    from torch import device, dtype

    from .allocator_requests import RequestPoolRequest, SWAAllocatorRequest
    from .platform import Subsystem
    from .traits import QuantScheme

__all__ = ["CompressedPoolRequest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompressedPoolRequest:
    """Windows, compressed rows, index keys and the tokens that wait to become such, in one pool.

    `compression_ratios[i]` tokens have one row in global layer `start_layer + i`; 0 stands for a
    layer that keeps its window alone. Every layer keeps `size_swa` window slots, and rows for
    `size` tokens. How the builder packs them, and what else it keeps for a request, is its own, in
    at most `total_bytes`; it declines what does not fit. `allocator` and `request_pool` say who
    owns which slot and row.

    :raises ValueError: for counts below their minimum, and pages that rows do not divide.
    """

    total_bytes: int
    size: int
    size_swa: int
    page_size: int
    sliding_window: int
    compression_ratios: tuple[int, ...]
    head_dim: int
    qk_rope_head_dim: int
    index_head_dim: int
    dtype: dtype
    quant_scheme: QuantScheme
    allocator: SWAAllocatorRequest
    request_pool: RequestPoolRequest
    device: str | device
    start_layer: int = 0
    enable_memory_saver: bool = False

    def __post_init__(self) -> None:
        for name in ("total_bytes", "page_size", "sliding_window", "head_dim", "index_head_dim"):
            at_least(self, name, 1)
        for size in (self.size, self.size_swa):
            whole_pages(self, size, self.page_size)
        split = [ratio for ratio in self.compression_ratios if ratio and self.page_size % ratio]
        if split:
            raise ValueError(
                f"CompressedPoolRequest.page_size={self.page_size}: the {split[0]} tokens of a row "
                "would cross a page"
            )

    @property
    def layer_num(self) -> int:
        """Layers of the stage."""
        return len(self.compression_ratios)

    @property
    def subsystems(self) -> frozenset[Subsystem]:
        """What a platform has to offer for it."""
        return frozenset(_NEEDED)


_NEEDED: tuple[Subsystem, ...] = ("compressed_pool",)
