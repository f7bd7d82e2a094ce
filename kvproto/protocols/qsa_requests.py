"""Rows by head, with an index key for every few tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .composite_requests import HybridPoolRequest
from .row_request import at_least

if TYPE_CHECKING:
    from torch import dtype

    from .allocator_requests import RequestPoolRequest
    from .platform import Subsystem
    from .requests import AllocatorRequest, LeafRequest
    from .state_requests import StateRequestPoolRequest

__all__ = ["QSAPoolRequest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class QSAPoolRequest:
    """Rows by head, and in each of their layers a key of one head for `qsa_compress_ratio` tokens.

    Keys are of `index_dtype`, in pages with the numbers of the rows' pages. Tokens that have none
    yet wait in a ring of `qsa_compress_ratio` raw keys in bf16, one for each of
    `num_request_slots` rows of the request table, the padding row among them.

    :raises ValueError: for counts below their minimum, and groups that do not divide a page.
    """

    pool: HybridPoolRequest | LeafRequest
    qsa_index_head_dim: int
    qsa_compress_ratio: int
    num_request_slots: int
    index_dtype: dtype
    allocator: AllocatorRequest
    request_pool: RequestPoolRequest | StateRequestPoolRequest

    def __post_init__(self) -> None:
        for name in ("qsa_index_head_dim", "qsa_compress_ratio", "num_request_slots"):
            at_least(self, name, 1)
        if self.page_size % self.qsa_compress_ratio:
            raise ValueError(
                f"QSAPoolRequest.qsa_compress_ratio={self.qsa_compress_ratio}: must divide "
                f"page_size={self.page_size}"
            )

    @property
    def rows(self) -> LeafRequest:
        """The leaf of the attending layers."""
        return self.pool.full if isinstance(self.pool, HybridPoolRequest) else self.pool

    @property
    def page_size(self) -> int:
        """Tokens of a page."""
        return self.rows.page_size

    @property
    def index_bytes(self) -> int:
        """Bytes of keys and rings, the reserved page's and the padding row's among them."""
        slots = self.rows.size + self.page_size
        key = self.qsa_index_head_dim * self.index_dtype.itemsize
        ring = self.num_request_slots * self.qsa_compress_ratio * self.qsa_index_head_dim * 2
        return self.rows.layer_num * (slots // self.qsa_compress_ratio * key + ring)

    @property
    def subsystems(self) -> frozenset[Subsystem]:
        """What a platform has to offer for it."""
        return frozenset(_NEEDED)


_NEEDED: tuple[Subsystem, ...] = ("qsa_pool",)
