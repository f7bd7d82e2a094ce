"""Acme's own allocator: pages counted on the host, derived from nothing of kvproto's."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from kvproto import AllocatorRequest


class AcmePages:
    """Pages 1 to `size / page_size`, the lowest free one first."""

    def __init__(self, request: AllocatorRequest) -> None:
        self.size, self.page_size = request.size, request.page_size
        self.device = torch.device(request.device)
        self._free, self._held = list[int](), list[int]()
        self._grouped = False
        self.clear()

    def get_kvcache(self) -> None:
        return None

    def available_size(self) -> int:
        return len(self._free) * self.page_size

    def alloc(self, need_size: int, /) -> Tensor | None:
        if need_size % self.page_size:
            raise ValueError(f"need_size={need_size} ends inside a page of {self.page_size}")
        pages = self._take(need_size // self.page_size)
        if pages is None:
            return None
        inside = range(self.page_size)
        return self._slots([page * self.page_size + i for page in pages for i in inside])

    def alloc_extend(
        self,
        prefix_lens: Tensor,
        prefix_lens_cpu: Tensor,
        seq_lens: Tensor,
        seq_lens_cpu: Tensor,
        last_loc: Tensor,
        extend_num_tokens: int,
    ) -> Tensor | None:
        return self._continued(prefix_lens_cpu.tolist(), seq_lens_cpu.tolist(), last_loc.tolist())

    def alloc_decode(
        self, seq_lens: Tensor, seq_lens_cpu: Tensor, last_loc: Tensor, /
    ) -> Tensor | None:
        ends = seq_lens_cpu.tolist()
        return self._continued([end - 1 for end in ends], ends, last_loc.tolist())

    def free(self, free_index: Tensor, /) -> None:
        named = {slot // self.page_size for slot in free_index.tolist()}
        back = sorted(named - {0} - set(self._free) - set(self._held))
        target = self._held if self._grouped else self._free
        target += [page for page in back if 0 < page <= self.size // self.page_size]
        self._free.sort()

    def free_segment(self, free_index: Tensor, /, *, start_pos: int) -> None:
        self.free(free_index)

    def free_segments(self, segments: Iterable[tuple[Tensor, int]], /) -> None:
        for free_index, _ in segments:
            self.free(free_index)

    def free_group_begin(self) -> None:
        self._grouped = True

    def free_group_end(self) -> None:
        self._free = sorted(self._free + self._held)
        self._held, self._grouped = [], False

    def clear(self) -> None:
        self._free = list(range(1, self.size // self.page_size + 1))
        self._held, self._grouped = [], False

    def _take(self, count: int) -> list[int] | None:
        if count > len(self._free):
            return None
        taken, self._free = self._free[:count], self._free[count:]
        return taken

    def _continued(self, starts: list[int], ends: list[int], last: list[int]) -> Tensor | None:
        page = self.page_size
        spans = [range(start, end) for start, end in zip(starts, ends, strict=True)]
        pages = self._take(sum(token % page == 0 for span in spans for token in span))
        if pages is None:
            return None
        slots: list[int] = []
        for span, before in zip(spans, last, strict=True):
            end = before
            for token in span:
                end = end + 1 if token % page else pages.pop(0) * page
                slots.append(end)
        return self._slots(slots)

    def _slots(self, slots: list[int]) -> Tensor:
        return torch.tensor(slots, dtype=torch.int64, device=self.device)
