"""Compressed index keys, one per group of tokens, beside a hybrid pool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ._capability import Capability

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["QSAIndexed"]


@runtime_checkable
class QSAIndexed(Capability, Protocol):
    """Does the pool keep one index key per `qsa_compress_ratio` tokens?

    The compressed slot of a full token slot is `slot // qsa_compress_ratio`; a group never
    straddles pages. Compressed slot 0 belongs to the reserved page. Tokens of a group that is
    not full wait in a ring per request.
    """

    @property
    def qsa_compress_ratio(self) -> int:
        """Tokens per compressed key; divides the page size."""
        ...

    @property
    def qsa_compressed_page_size(self) -> int:
        """Compressed keys per page: `page_size // qsa_compress_ratio`."""
        ...

    def get_qsa_compressed_k_buffer(self, layer_id: int, /) -> Tensor:
        """All compressed keys of a layer: `[compressed slots, heads, dim]`; an alias.

        :raises ValueError: for a global layer id that is not an attention layer of the pool.
        """
        ...

    def set_qsa_compressed_k_buffer(
        self, layer_id: int, loc: Tensor, compressed_k: Tensor, /
    ) -> None:
        """Store `[n, heads, dim]` compressed keys at `[n]` compressed slots.

        Slot 0 and below are dropped.

        :raises ValueError: for a global layer id that is not an attention layer of the pool.
        """
        ...

    def get_qsa_key_state_buffer(self, layer_id: int, /) -> Tensor:
        """The rings of waiting keys: row `request * qsa_compress_ratio + position % ratio`.

        :raises ValueError: for a global layer id that is not an attention layer of the pool.
        """
        ...

    def get_qsa_pending_state_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        """`(ptrs, lens, item_lens)` of the rings, in bytes; an item is one request's ring.

        Three empty lists on a stage without attention layers.
        """
        ...
