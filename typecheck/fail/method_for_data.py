"""`page_size()` where consumers write `page_size`."""

from __future__ import annotations

from kvproto.protocols import Transferable


class AsksForACall:
    def page_size(self) -> int:
        return 16

    def get_contiguous_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        return [], [], []

    def maybe_get_custom_mem_pool(self) -> None:
        return None


_: type[Transferable] = AsksForACall  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
