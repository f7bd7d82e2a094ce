"""What public plugins of engines got wrong, each in a pool that is right otherwise.

Unlike other mutants these are annotated throughout: a type checker is one of the nets they are
thrown at (`docs/faults.md`). What it refuses here carries an ignore.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from kvproto.protocols import AttentionLayer, Declined, MHALeafRequest, WriteLocation

from ..block_codec import is_block_scaled
from .plugin_pool import PluginPool, build_plugin
from .registry import mutant

__all__ = ["PLUGIN_FAULTS", "PluginFault", "build_plain"]

T = TypeVar("T", bound=type[PluginPool])


@dataclass(frozen=True, slots=True)
class PluginFault:
    """`told` says what the plugin did, `kills` is the law that must name it."""

    pool: type[PluginPool]
    told: str
    kills: str


PLUGIN_FAULTS: list[PluginFault] = []
"""Every fault, in the order of their lines."""


def fault(law: str, told: str, source: str = "") -> Callable[[T], T]:
    """Register a class as a mutant of the kit and as a row of the table of nets."""
    as_mutant = mutant(
        law, serves=MHALeafRequest, source=source, build=build_plain, layouts=("nhd",)
    )

    def register(cls: T) -> T:
        PLUGIN_FAULTS.append(PluginFault(cls, told, law))
        return as_mutant(cls)

    return register


def build_plain(cls: Any, request: MHALeafRequest) -> Any:
    """One for plain rows, in memory that stays; others are declined."""
    if is_block_scaled(request) or request.enable_memory_saver:
        return Declined("plain rows, in memory that stays")
    return build_plugin(cls, request)


@fault(
    "transfer.item-len",
    "the length of an item is a token's, where a page's is meant",
    "sgl-project/sglang#26490",
)
class ItemsPerToken(PluginPool):
    def get_contiguous_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        pointers, lengths, items = super().get_contiguous_buf_infos()
        return pointers, lengths, [item // self.page_size for item in items]


@fault(
    "leaf.layers-owned",
    "`buffer[layer_id]` without `- start_layer`: later pipeline stages read other layers",
    "sgl-project/sglang#30340",
)
class WithoutStartLayer(PluginPool):
    def _local(self, layer_id: int) -> int:
        return layer_id


@fault(
    "write.override-first",
    "`layer_id_override or layer.layer_id`: an override of layer 0 is none",
)
class FalsyOverride(PluginPool):
    def _layer_id(self, layer: AttentionLayer | None, override: int | None) -> int:
        if layer is None:
            return override or 0
        return override or layer.layer_id


@fault(
    "transfer.order",
    "descriptors in the order k0, v0, k1, v1, where the peer pairs all keys, then all values",
)
class KeysBesideValues(PluginPool):
    def get_contiguous_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        buffers = [each for pair in zip(self.keys, self.values, strict=True) for each in pair]
        return (
            [buffer.data_ptr() for buffer in buffers],
            [buffer.nbytes for buffer in buffers],
            [buffer[0].nbytes * self.page_size for buffer in buffers],
        )


@fault(
    "leaf.write-read",
    "fp8 rows put into bytes by their value, `.to(uint8)`, instead of a view of their bits",
)
class CastsToBytes(PluginPool):
    def _stored(self, rows: Tensor, scale: float | Tensor | None) -> Tensor:
        if self.store_dtype == self.dtype:
            return super()._stored(rows, scale)
        return rows.clamp(0, 255).to(torch.uint8)


@fault(
    "declaration.half-offered",
    "`get_cpu_copy` without the keyword `mamba_indices` that its callers pass",
    "sgl-project/sglang#27802",
)
class CopiesWithoutKeyword(PluginPool):
    def get_cpu_copy(self, indices: Tensor) -> Any:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        return super().get_cpu_copy(indices)


class _ListsOfLayers(PluginPool):
    """An engine's own class, which copies a list of tensors of layers."""

    def get_cpu_copy(
        self,
        indices: Tensor,
        mamba_indices: Tensor | None = None,
        req_pool_index: int | None = None,
    ) -> Any:
        return [buffer[indices].cpu() for buffer in (*self.k_buffer, *self.v_buffer)]

    def load_cpu_copy(
        self,
        kv_cache_cpu: Any,
        indices: Tensor,
        mamba_indices: Tensor | None = None,
        req_pool_index: int | None = None,
    ) -> None:
        buffers = (*self.k_buffer, *self.v_buffer)
        for buffer, rows in zip(buffers, kv_cache_cpu, strict=True):
            self._put(buffer, indices, rows)


@fault(
    "host-copy.round-trip",
    "storage replaced by the plugin's, and copies inherited that look at the engine's",
    "sgl-project/sglang#25249",
)
class CopiesOfReplacedStorage(_ListsOfLayers):
    def __init__(self, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.keys, self.values = self.keys.clone(), self.values.clone()


@fault(
    "size.predicted",
    "heads padded to a width that kernels like, which nothing declares",
)
class PadsHeads(PluginPool):
    def _zeros(self, width: int) -> Tensor:
        return super()._zeros(-width // 32 * -32)

    def _put(self, buffer: Tensor, loc: Tensor, rows: Tensor) -> None:
        missing = buffer.shape[-1] - rows.shape[-1]
        super()._put(buffer, loc, torch.cat([rows, rows.new_zeros(*rows.shape[:-1], missing)], -1))


def places_of(loc_info: Tensor | WriteLocation) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """A batch's locations in the spaces of a pool, of its windows and of its full layers."""
    if isinstance(loc_info, Tensor):
        return loc_info, None, None
    return loc_info.loc, loc_info.swa_loc, loc_info.full_loc


@fault(
    "leaf.write-read",
    "two values unpacked of a write location that has grown a third",
)
class UnpacksTwo(PluginPool):
    def _locations(self, loc_info: Tensor | WriteLocation) -> Tensor:
        loc: Tensor
        loc, _ = places_of(loc_info)  # type: ignore[misc]  # pyright: ignore[reportAssignmentType]
        return loc


@fault(
    "fp8.variant",
    "bytes of e4m3fn in a pool of e4m3fnuz, whose numbers are half as large",
    "vllm-project/vllm#45720",
)
class OtherFp8(PluginPool):
    def _stored(self, rows: Tensor, scale: float | Tensor | None) -> Tensor:
        if self.dtype != torch.float8_e4m3fnuz:
            return super()._stored(rows, scale)
        return rows.to(torch.float8_e4m3fn).view(torch.uint8)
