"""How many new pages a batch needs: counted on the host, before anything changes."""

from __future__ import annotations

from typing import cast

from torch import Tensor

__all__ = ["check_batch", "check_tokens", "pages_to_decode", "pages_to_extend"]


def pages_to_extend(
    prefix_lens_cpu: Tensor, seq_lens_cpu: Tensor, page_size: int
) -> tuple[int, int]:
    """New pages and tokens for tokens `prefix_lens[i] .. seq_lens[i] - 1` of every request `i`.

    Counted in Python: for the few requests of a prefill that beats any tensor operation.

    :raises ValueError: for a sequence shorter than its prefix, or lengths that do not pair up.
    """
    pages = tokens = 0
    for prefix, seq in zip(_numbers(prefix_lens_cpu), _numbers(seq_lens_cpu), strict=True):
        if seq < prefix:
            raise ValueError("seq_lens: every sequence must be at least as long as its prefix")
        pages += -(-seq // page_size) + (-prefix // page_size)
        tokens += seq - prefix
    return pages, tokens


def pages_to_decode(seq_lens_cpu: Tensor, page_size: int) -> int:
    """New pages for the last token of every request, where that token begins one."""
    return int(((seq_lens_cpu - 1) % page_size == 0).sum())


def check_batch(**tensors: Tensor) -> None:
    """Check that every tensor has an entry per request, before a page is taken for one of them.

    :raises ValueError: naming the shape of each.
    """
    shapes = {tensor.shape for tensor in tensors.values()}
    if len(shapes) != 1 or len(*shapes) != 1:
        given = ", ".join(f"{name} {tuple(each.shape)}" for name, each in tensors.items())
        raise ValueError(f"{given}: must all be (requests,); nothing was allocated")


def check_tokens(extend_num_tokens: int, counted: int) -> None:
    """Check what a caller counted.

    :raises ValueError: for another number than the lengths add up to.
    """
    if extend_num_tokens != counted:
        raise ValueError(f"extend_num_tokens={extend_num_tokens}: the lengths say {counted}")


def _numbers(lens: Tensor) -> list[int]:
    return cast("list[int]", lens.tolist())  # pyright: ignore[reportUnknownMemberType]
