"""Pages that an allocation takes, as kernels read them, and the table of peers that it writes."""

from __future__ import annotations

from torch import Tensor

__all__ = ["dense_pages"]


def dense_pages(
    operation: str, new_pages: Tensor, peer_pages: Tensor | None, peers: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Both lists of pages one element after the other, whatever strides they have.

    :raises ValueError: for another number of pages of the second space, or a table of peers that
        is not dense: it is written, where a copy of it would be.
    """
    if peers is not None and not peers.is_contiguous():
        raise ValueError(
            f"{operation}: the table of peers has strides {peers.stride()}; served are dense "
            "tables; nothing was written"
        )
    if peer_pages is None:
        return new_pages.contiguous(), None
    if peer_pages.shape != new_pages.shape:
        raise ValueError(
            f"{operation}: peer_pages have shape {tuple(peer_pages.shape)}, new_pages "
            f"{tuple(new_pages.shape)}: must be as many; nothing was written"
        )
    return new_pages.contiguous(), peer_pages.contiguous()
