"""A page size as text."""

from __future__ import annotations

from kvproto.protocols import Transferable


class TextPageSize:
    page_size = "16"

    def get_contiguous_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        return [], [], []

    def maybe_get_custom_mem_pool(self) -> None:
        return None


_: type[Transferable] = TextPageSize  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
