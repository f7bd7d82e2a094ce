"""Leaves of latent rows in planes, right but for one fault each."""

# pyright: reportIncompatibleMethodOverride=false
# These pools are wrong on purpose.

from __future__ import annotations

from functools import partial
from typing import Any

from kvproto.adapters.npu.mla import NPUMLALeaf
from kvproto.protocols import MLALeafRequest

from .registry import mutant


def _in_planes(cls: Any, request: MLALeafRequest) -> Any:
    return cls(**request.keywords(), kv_cache_layout=request.layout)


_on = partial(mutant, serves=MLALeafRequest, build=_in_planes)


@_on("transfer.groups", layouts=("latent_split",))
class InterleavesItsGroups(NPUMLALeaf):
    """Both parts of a layer, then those of the next: a peer pairs latents with rope."""

    def _by_layer(self, entries: list[int]) -> list[int]:
        half = len(entries) // 2
        return [each for pair in zip(entries[:half], entries[half:], strict=True) for each in pair]

    def get_contiguous_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        ptrs, lens, items = map(self._by_layer, super().get_contiguous_buf_infos())
        return ptrs, lens, items

    def get_kv_layer_ids(self) -> list[int]:
        return self._by_layer(super().get_kv_layer_ids())


@_on("leaf.read-doors", layouts=("latent_split_nz",))
class BlocksOf16Elements(NPUMLALeaf):
    """Takes the 32 bytes that NZ keeps together for 16 elements, whatever their size."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        pages, page = self.size // self.page_size + 1, self.page_size
        self.k_buffer = [layer.view(pages, -1, page, 16) for layer in self.k_buffer]
