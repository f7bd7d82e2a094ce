"""Allocators of virtual ids, right but for one fault each."""

# pyright: reportIncompatibleMethodOverride=false, reportPrivateUsage=false
# These allocators are wrong on purpose, some of them below their doors.

from __future__ import annotations

from typing import Any

from torch import Tensor

from kvproto.protocols import VirtualIdsRequest
from kvproto.reference.build_allocator import ids_of
from kvproto.reference.virtual_ids import VirtualIds

from .registry import mutant


def virtual(cls: Any, request: VirtualIdsRequest) -> Any:
    """Ids over pages."""
    return cls(
        virtual_allocator=ids_of(request),
        physical_pages=request.size // request.page_size,
        unified_buffer=None,
        kvcache=None,
    )


@mutant("virtual-ids.table", serves=VirtualIdsRequest, build=virtual)
class KeepsWhatIsBehindFreedIds(VirtualIds):
    def _release(self, pages: Tensor) -> None:
        before = self.full_v2p_page_table.clone()
        super()._release(pages)
        self.full_v2p_page_table.copy_(before)


@mutant("virtual-ids.table", serves=VirtualIdsRequest, build=virtual)
class MakesANewTable(VirtualIds):
    def alloc(self, need_size: int, /) -> Tensor | None:
        self.full_v2p_page_table = self.full_v2p_page_table.clone()
        return super().alloc(need_size)


@mutant("virtual-ids.translate", serves=VirtualIdsRequest, build=virtual)
class WrapsNegativeIds(VirtualIds):
    def translate_kv_loc(self, loc: Tensor, /, *, out: Tensor | None = None) -> Tensor:
        count = self._ids.size + self.page_size
        return super().translate_kv_loc(loc % count, out=out)


@mutant("virtual-ids.translate", serves=VirtualIdsRequest, build=virtual)
class ForgetsOut(VirtualIds):
    def translate_kv_loc(self, loc: Tensor, /, *, out: Tensor | None = None) -> Tensor:
        return super().translate_kv_loc(loc)


@mutant("virtual-ids.write-width", serves=VirtualIdsRequest, build=virtual)
class LeavesTheTailOfOut(VirtualIds):
    def translate_write_loc(
        self, loc: Tensor, /, *, out: Tensor | None = None, out_width: int | None = None
    ) -> Tensor:
        found = super().translate_write_loc(loc, out_width=out_width)
        if out is None:
            return found
        out[: loc.shape[0]].copy_(found[: loc.shape[0]])
        return out
