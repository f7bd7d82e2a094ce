"""What a platform is asked to build: one frozen request per kind of leaf, or an allocator.

A request says what the leaf must hold, in the words of the pools' constructors, and nothing
about how the asker decided. `keywords()` gives those constructor keywords.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from .head_requests import MHALeafRequest, SparseIndexLeafRequest
from .latent_requests import DSALeafRequest, MLALeafRequest
from .row_request import at_least, whole_pages

if TYPE_CHECKING:
    from torch import device

    from .fallback import Fallback

__all__ = ["AllocatorKind", "AllocatorRequest", "Declined", "LeafRequest"]


@dataclass(frozen=True, slots=True)
class Declined:
    """A builder's answer to a request it does not serve; `reason` is for the person who asked."""

    reason: str


LeafRequest: TypeAlias = MHALeafRequest | MLALeafRequest | DSALeafRequest | SparseIndexLeafRequest

AllocatorKind = Literal["token", "paged"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatorRequest:
    """An allocator that hands out `size` slots, `page_size .. size + page_size - 1`.

    `size` is whole pages, as that of the pool is. `need_sort` asks for freed pages to come back in
    ascending order. `fallback` says who builds it where a platform declines it: the core, unless
    the deployment must run on accounts of the platform's own.

    :raises ValueError: for sizes below one, or not of whole pages.
    """

    kind: AllocatorKind
    size: int
    page_size: int
    device: str | device
    need_sort: bool = False
    fallback: Fallback = "core"

    def __post_init__(self) -> None:
        for name in ("size", "page_size"):
            at_least(self, name, 1)
        whole_pages(self, self.size, self.page_size)
