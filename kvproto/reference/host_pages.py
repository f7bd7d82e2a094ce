"""Slots of the pages of a `HostFreeList`, in numpy: its calls cost a fraction of torch's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from kvproto.kernels.alloc_on_host import decoded_slots, extended_slots, without_repeats
from kvproto.kernels.on_host import np

from .host_free_list import HostFreeList
from .page_demand import check_batch, check_tokens, pages_to_extend

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["HostPages"]


class HostPages(HostFreeList):
    """What `DevicePages` does, for tensors on the CPU."""

    def __init__(
        self,
        capacity: int,
        page_size: int,
        *,
        need_sort: bool = False,
        strict: bool = False,
        newest_first: bool = False,
    ) -> None:
        super().__init__(capacity, need_sort=need_sort, strict=strict, newest_first=newest_first)
        self.page_size = page_size
        # An array: a plain number is made one in every shift.
        self._shift: NDArray[np.int64] = np.array(page_size.bit_length() - 1)
        # Copied from: faster than to compute them anew.
        self._slots = np.arange((capacity + 1) * page_size).reshape(-1, page_size)

    def lend(self, n: int) -> Tensor | None:
        """All slots of `n` pages, page after page; None and no change where fewer are free."""
        pages = self.take(n)
        return None if pages is None else _tensor(self._slots.take(pages, axis=0).reshape(-1))

    def extend(
        self,
        prefix_lens: Tensor,
        prefix_lens_cpu: Tensor,
        seq_lens: Tensor,
        seq_lens_cpu: Tensor,
        last_loc: Tensor,
        extend_num_tokens: int,
    ) -> Tensor | None:
        """Slots that continue each request; None and no change where too few pages are free.

        :raises ValueError: when `extend_num_tokens` is not what the lengths add up to, and for
            tensors that are not all `[requests]`; nothing has changed.
        """
        check_batch(
            prefix_lens=prefix_lens,
            prefix_lens_cpu=prefix_lens_cpu,
            seq_lens=seq_lens,
            seq_lens_cpu=seq_lens_cpu,
            last_loc=last_loc,
        )
        new_pages, extend = pages_to_extend(prefix_lens_cpu, seq_lens_cpu, self.page_size)
        check_tokens(extend_num_tokens, extend)
        most = extend // self.page_size + prefix_lens.shape[0] + 1
        pages = self.take(new_pages, expected=most)
        if pages is None:
            return None
        lens = prefix_lens.numpy().astype(np.int64), seq_lens.numpy().astype(np.int64)
        return _tensor(extended_slots(*lens, last_loc.numpy(), pages, self.page_size))

    def decode(self, seq_lens: Tensor, seq_lens_cpu: Tensor, last_loc: Tensor) -> Tensor | None:
        """A slot for the last token of each request; None and no change as above.

        :raises ValueError: for tensors that are not all `[requests]`; nothing has changed.
        """
        check_batch(seq_lens=seq_lens, seq_lens_cpu=seq_lens_cpu, last_loc=last_loc)
        begins = np.flatnonzero((seq_lens_cpu.numpy() - 1) % self.page_size == 0)
        pages = self.take(len(begins), expected=seq_lens.shape[0])
        if pages is None:
            return None
        return _tensor(decoded_slots(last_loc.numpy(), begins, pages, self.page_size))

    def free_slots(self, slots: Tensor) -> None:
        """Take back every page that one of the slots is on, in ascending order."""
        self.release(without_repeats(self._pages_of(slots.numpy())), as_set=True)

    def free_segment(self, slots: Tensor) -> None:
        """Take back the pages of consecutive tokens, of which the first begins one."""
        self.release(self._pages_of(slots.numpy()[:: self.page_size]))

    def free_pages(self, pages: Tensor) -> None:
        """Take back pages, int64, of which 0 stands for none."""
        named = pages.numpy()
        self.release(named[named != 0])

    def pages(self) -> Tensor:
        """All pages that `available` counts, for tests of the accounts."""
        return _tensor(self.all_free())

    def _pages_of(self, slots: NDArray[np.integer]) -> NDArray[np.integer]:
        """An array of its own, whatever becomes of the caller's."""
        if self.page_size & (self.page_size - 1):
            return slots // self.page_size
        return slots >> self._shift


def _tensor(array: NDArray[np.integer]) -> Tensor:
    return torch.from_numpy(array)  # pyright: ignore[reportUnknownMemberType]
