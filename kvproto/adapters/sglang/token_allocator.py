"""The reference token allocator, with what sglang's scheduler asks of every allocator."""

from __future__ import annotations

import torch

from kvproto.debug import maybe_validate
from kvproto.reference import TokenAllocator

from .scheduler_calls import OneSpaceCalls

__all__ = ["SGLangTokenAllocator"]


class SGLangTokenAllocator(OneSpaceCalls, TokenAllocator):
    """`TokenAllocator` behind the constructor and the calls of sglang's allocator of single tokens.

    As `SGLangPageAllocator`.

    :raises ValueError: for a size below 1.
    """

    def __init__(
        self,
        size: int,
        dtype: torch.dtype,
        device: str | torch.device,
        kvcache: object,
        need_sort: bool,
    ) -> None:
        TokenAllocator.__init__(self, size, dtype, device, kvcache, need_sort)
        maybe_validate(self)
