"""Window state kept per request instead of per token slot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ._capability import Capability

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["RequestRingSWA"]


@runtime_checkable
class RequestRingSWA(Capability, Protocol):
    """Can the pool keep a window as rows of the request, outside every token budget?

    Which of the two forms is in use, or neither, is a fact of the built pool: read the values.
    """

    @property
    def swa_req_ring_size(self) -> int | None:
        """Tokens in a request's ring; None without rings.

        Position `p` of row `r` is at window slot `r * swa_req_ring_size + p % swa_req_ring_size`.
        Row 0, which is padding, has a ring too.
        """
        ...

    @property
    def request_window(self) -> object | None:
        """The per-request window rows that stand in for a paged window, or None."""
        ...

    @property
    def needs_paged_swa_allocator(self) -> bool:
        """Whether window tokens still take pages, so that the allocator must budget them."""
        ...

    @property
    def swa_valid_from(self) -> Tensor | None:
        """int `[requests]`: the first position whose window row is valid; None where all are."""
        ...

    def get_request_state_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        """`(ptrs, lens, item_lens)` of the request-scoped state, in bytes; one item per request.

        Three empty lists where the pool keeps none.
        """
        ...

    def clear_request_scoped_state(self, req_pool_idx: int, /) -> None:
        """Reset what the row `req_pool_idx` of the request pool has left behind."""
        ...
