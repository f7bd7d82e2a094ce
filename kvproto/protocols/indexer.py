"""Keys that choose which tokens sparse attention looks at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ._capability import Capability

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["IndexerCapable"]


@runtime_checkable
class IndexerCapable(Capability, Protocol):
    """Does the pool keep quantized index keys, with their scales, beside the attention rows?

    The rows are part of the answer: a wrapper that only forwards the doors has none, and works
    for some leaves only. Ask its leaf.
    """

    @property
    def index_head_dim(self) -> int:
        """Width of an index key, in elements."""
        ...

    @property
    def index_page_size(self) -> int:
        """Index keys per page of the index buffer: the pool's page, divided by `index_kpool`."""
        ...

    @property
    def index_kpool(self) -> int:
        """Tokens that share one index key; 1 where every token has its own."""
        ...

    @property
    def index_k_with_scale_buffer(self) -> Sequence[Tensor]:
        """One uint8 tensor per owned layer, local order: `[pages, bytes of an index page]`.

        A page holds `index_page_size` keys, then their scales. Layers that reuse the choice of
        an earlier layer own no rows: `[0, ...]`.
        """
        ...

    def get_index_k_with_scale_buffer(self, layer_id: int) -> Tensor:
        """The index pages of a layer, as stored; an alias.

        :raises ValueError: for a global layer id the pool does not own.
        """
        ...

    def set_index_k_scale_buffer(
        self, layer_id: int, loc: Tensor, index_k: Tensor, index_k_scale: Tensor
    ) -> None:
        """Store `[n, index_head_dim]` quantized keys and `[n]` float32 scales at `[n]` index slots.

        The index slot of a token slot is `slot // index_kpool`. Key and scale of a slot land in
        the same page; slot 0 and below are dropped.

        :raises ValueError: for a global layer id the pool does not own.
        """
        ...

    def get_index_k_scale_buffer(
        self,
        layer_id: int,
        seq_len_tensor: Tensor,
        page_indices: Tensor,
        seq_len_sum: int,
        max_seq_len: int,
    ) -> tuple[Tensor, Tensor]:
        """Keys and scales of a batch, gathered, request after request; uint8 both.

        Keys are `[seq_len_sum, index_head_dim]`, scales `[seq_len_sum, 4]`, a float32 each.
        `page_indices` is `[requests, pages]` of index pages, its tail past a request's length is
        not read; `seq_len_tensor` `[requests]` counts index keys, and `seq_len_sum` and
        `max_seq_len` are its sum and maximum, known to the host.

        :raises ValueError: for a global layer id the pool does not own.
        """
        ...
