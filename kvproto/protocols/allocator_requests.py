"""What a platform is asked to build besides leaves: who owns which slot, row and state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import device

    from .fallback import Fallback

__all__ = [
    "HiSparseAllocatorRequest",
    "PureSWAAllocatorRequest",
    "RequestPoolRequest",
    "SWAAllocatorRequest",
    "StateSlotsRequest",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SWAAllocatorRequest:
    """A pair of allocators in step: `size` full slots, and `size_swa` window slots as their peers.

    Both are multiples of `page_size`, their reserved pages not counted. `fallback` is that of each
    side, as in `AllocatorRequest`.

    :raises ValueError: for sizes below one page, or not of whole pages.
    """

    size: int
    size_swa: int
    page_size: int
    device: str | device
    need_sort: bool = False
    fallback: Fallback = "core"

    def __post_init__(self) -> None:
        _at_least(self, "page_size", 1)
        for name in ("size", "size_swa"):
            _whole_pages(self, name, self.page_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class PureSWAAllocatorRequest:
    """An allocator for a model of window layers alone: `size_swa` slots, token by token.

    `fallback` is that of who lends them, as in `AllocatorRequest`.

    :raises ValueError: for a size below 1.
    """

    size_swa: int
    device: str | device
    need_sort: bool = False
    fallback: Fallback = "core"

    def __post_init__(self) -> None:
        _at_least(self, "size_swa", 1)

    @property
    def size(self) -> int:
        """Slots of the one space."""
        return self.size_swa

    @property
    def page_size(self) -> int:
        """1: there are no pages."""
        return 1


@dataclass(frozen=True, slots=True, kw_only=True)
class HiSparseAllocatorRequest:
    """Device slots for `size` tokens, and ids for `host_to_device_ratio` times as many.

    Both sides are the platform's paged allocator; `size` is a multiple of `page_size`, the
    reserved page not counted. `fallback` is that of each side, as in `AllocatorRequest`.

    :raises ValueError: for a size below one page, or not of whole pages, or a ratio below 1.
    """

    size: int
    page_size: int
    device: str | device
    need_sort: bool = False
    host_to_device_ratio: int = 2
    fallback: Fallback = "core"

    def __post_init__(self) -> None:
        _at_least(self, "page_size", 1)
        _whole_pages(self, "size", self.page_size)
        _at_least(self, "host_to_device_ratio", 1)

    @property
    def size_logical(self) -> int:
        """Ids that can be owned at once."""
        return self.size * self.host_to_device_ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSlotsRequest:
    """An allocator of `size` state slots, 1 to `size`; slot 0 is reserved."""

    size: int
    device: str | device

    def __post_init__(self) -> None:
        _at_least(self, "size", 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestPoolRequest:
    """A table of token slots per request: `size` rows in use at once, `max_context_len` wide.

    `pre_alloc_size` rows on top are for requests that do not run yet; row 0 is padding.
    """

    size: int
    max_context_len: int
    device: str | device
    pre_alloc_size: int = 0
    enable_memory_saver: bool = False

    def __post_init__(self) -> None:
        _at_least(self, "size", 1)
        _at_least(self, "max_context_len", 1)
        _at_least(self, "pre_alloc_size", 0)


def _whole_pages(request: Any, name: str, page_size: int) -> None:
    _at_least(request, name, page_size)
    if getattr(request, name) % page_size:
        raise ValueError(
            f"{type(request).__name__}.{name}={getattr(request, name)}: not a multiple of "
            f"page_size={page_size}"
        )


def _at_least(request: Any, name: str, minimum: int) -> None:
    value: object = getattr(request, name)
    if not isinstance(value, int) or value < minimum:
        raise ValueError(
            f"{type(request).__name__}.{name}={value!r}: must be an integer of at least {minimum}"
        )
