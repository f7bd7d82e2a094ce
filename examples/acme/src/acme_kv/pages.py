"""Acme's own allocator: a bit a page, in host memory, where Acme's device keeps everything."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from kvproto.protocols import AllocatorRequest

__all__ = ["AcmePages"]


class AcmePages:
    """Lends pages 1 to `size / page_size`, the lowest free one first.

    To free is to set a bit, so that whoever frees twice has freed once. Page 0 is the reserved one:
    its bit is never set, and what names no page ends up there.
    """

    def __init__(self, request: AllocatorRequest) -> None:
        self.size, self.page_size = request.size, request.page_size
        self.device = torch.device(request.device)
        self._free = torch.zeros(self.size // self.page_size + 1, dtype=torch.bool)
        self._held = torch.zeros_like(self._free)
        self._grouped = False
        self.clear()

    def get_kvcache(self) -> None:
        """Pages are not asked which pool they are of."""
        return

    def available_size(self) -> int:
        """Slots of all free pages."""
        return int(self._free.sum()) * self.page_size

    def alloc(self, need_size: int, /) -> Tensor | None:
        """Whole pages."""
        if need_size < 0 or need_size % self.page_size:
            raise ValueError(f"need_size={need_size} is no number of pages of {self.page_size}")
        pages = self._taken(need_size // self.page_size)
        if pages is None:
            return None
        slots = pages.unsqueeze(1) * self.page_size + torch.arange(self.page_size)
        return slots.flatten().to(self.device)

    def alloc_extend(
        self,
        prefix_lens: Tensor,
        prefix_lens_cpu: Tensor,
        seq_lens: Tensor,
        seq_lens_cpu: Tensor,
        last_loc: Tensor,
        extend_num_tokens: int,
    ) -> Tensor | None:
        """Slots for the tokens that each request grows by, request after request."""
        if extend_num_tokens != int((seq_lens_cpu - prefix_lens_cpu).sum()):
            raise ValueError(f"extend_num_tokens={extend_num_tokens} is not what the lengths say")
        return self._continued(prefix_lens_cpu, seq_lens_cpu, last_loc)

    def alloc_decode(
        self, seq_lens: Tensor, seq_lens_cpu: Tensor, last_loc: Tensor, /
    ) -> Tensor | None:
        """A slot for the last token of each request."""
        return self._continued(seq_lens_cpu - 1, seq_lens_cpu, last_loc)

    def _continued(self, starts: Tensor, ends: Tensor, last_loc: Tensor) -> Tensor | None:
        """Tokens `starts[i]` to `ends[i]`: on where the request ends, then on pages of its own."""
        page, lengths = self.page_size, ends - starts
        request = torch.repeat_interleave(lengths)
        step = torch.arange(len(request)) - (lengths.cumsum(0) - lengths)[request]
        token = starts[request] + step
        opens = token % page == 0
        taken = self._taken(int(opens.sum()))
        if taken is None:
            return None
        # The first page that is opened is number 1: until then there is none to look up.
        opened = torch.cat([taken.new_zeros(1), taken])[opens.cumsum(0)]
        first_page = -(-starts // page) * page
        goes_on = token < first_page[request]
        here = last_loc.cpu()[request] + 1 + step
        return torch.where(goes_on, here, opened * page + token % page).to(self.device)

    def _taken(self, count: int) -> Tensor | None:
        pages = self._free.nonzero().flatten()[:count]
        if len(pages) < count:
            return None
        self._free[pages] = False
        return pages

    def free(self, free_index: Tensor, /) -> None:
        """The pages of these slots; of a shape that is known beforehand, as kernels need it."""
        pages = free_index.cpu().long().div(self.page_size, rounding_mode="floor")
        known = (pages > 0) & (pages < len(self._free))
        named = torch.zeros_like(self._free).index_fill_(0, torch.where(known, pages, 0), True)
        named[0] = False
        if self._grouped:
            self._held |= named & ~self._free
        else:
            self._free |= named

    def free_segment(self, free_index: Tensor, /, *, start_pos: int) -> None:
        """The pages of consecutive tokens."""
        self.free(free_index)

    def free_segments(self, segments: Iterable[tuple[Tensor, int]], /) -> None:
        """Of several runs of them."""
        for free_index, start_pos in segments:
            self.free_segment(free_index, start_pos=start_pos)

    def free_group_begin(self) -> None:
        """What is freed waits from now on."""
        self._grouped = True

    def free_group_end(self) -> None:
        """What waited is free."""
        self._free |= self._held
        self._held.zero_()
        self._grouped = False

    def clear(self) -> None:
        """Every page is free, and no group open."""
        self._free.fill_(True)
        self._free[0] = False
        self._held.zero_()
        self._grouped = False
