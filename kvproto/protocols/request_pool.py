"""Which slots hold the tokens of a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ._capability import Capability

if TYPE_CHECKING:
    from torch import Tensor, device

__all__ = ["RequestPool"]


@runtime_checkable
class RequestPool(Capability, Protocol):
    """Can the pool give a request a row, and keep the slots of its tokens there?

    Row 0 is padding: never handed out, written to by padded batches. Requests are the engine's
    own objects; a pool reads and sets `kv.req_pool_idx` on them.
    """

    @property
    def size(self) -> int:
        """Requests that may run at once."""
        ...

    @property
    def max_context_len(self) -> int:
        """Tokens per row."""
        ...

    @property
    def device(self) -> device | str:
        """Where the table is."""
        ...

    @property
    def req_to_token(self) -> Tensor:
        """int32 `[rows, max_context_len]`: token slot of each position; `rows` exceeds `size`."""
        ...

    @property
    def req_generation(self) -> Tensor:
        """int64 `[rows]`, on the host: grows whenever a row is handed out, never shrinks."""
        ...

    @property
    def pre_alloc_size(self) -> int:
        """Rows on top of `size` for requests that do not run yet; 0 without them."""
        ...

    def write(self, indices: Any, values: Tensor, /) -> None:
        """Set entries of the table, in `req_to_token[indices] = values` terms.

        `indices` is `(row, slice)` or a pair of tensors; `values` are token slots.
        """
        ...

    def available_size(self) -> int:
        """Rows that can still be handed out."""
        ...

    def alloc(self, reqs: Any, /) -> list[int] | None:
        """Rows of a list of requests; one that has a row keeps it, one named twice gets one.

        None, with nothing changed, when there are too few.
        """
        ...

    def free(self, req: Any, /) -> None:
        """Take the request's row back; its entries stay until the row is reused."""
        ...

    def clear(self) -> None:
        """Take all rows back. Generations go on."""
        ...
