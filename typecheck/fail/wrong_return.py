"""Two lists where consumers unpack three."""

from __future__ import annotations

from kvproto.protocols import Transferable


class TwoLists:
    page_size = 1

    def get_contiguous_buf_infos(self) -> tuple[list[int], list[int]]:
        return [], []

    def maybe_get_custom_mem_pool(self) -> None:
        return None


_: type[Transferable] = TwoLists  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
