"""What a hybrid pool can do when its attention leaf can."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from torch import Tensor

from kvproto.protocols import (
    BufferRegion,
    DeclaresRegions,
    HostCopyable,
    KVLeaf,
    Movable,
    PoolTraits,
    Resumable,
    StatePool,
    Transferable,
    supports,
)

from .combine import what_fits
from .composite_commit import PrefixDoor
from .composite_doors import HeadGeometry, LatentDoors
from .composite_index import IndexDoors
from .composite_pages import (
    BufInfos,
    Regions,
    Resumes,
    Sizes,
    all_block_scaled,
    composite_traits,
    declares_traits,
    exports_pages,
    names_layers,
    page_infos,
    page_layer_ids,
    row_infos,
)
from .composite_scales import ScaleDoors
from .composite_tails import TailDoors
from .composite_writes import WRITE_DOORS
from .copy_checks import check_if_it_can
from .hybrid import HybridLinearPool
from .sides import Side

__all__ = ["HybridCopy", "hybrid_pool"]


class _Moves(HybridLinearPool):
    label = "Movable"

    @classmethod
    def fits(cls, sides: Sequence[Side], /) -> bool:
        """Can the leaf move tokens?"""
        return supports(sides[0].leaf, Movable)

    def move_kv_cache(self, tgt_loc: Tensor, src_loc: Tensor, /) -> None:
        """Move tokens of the attention layers; state is kept per request and stays."""
        cast("Movable", self.full_kv_pool).move_kv_cache(tgt_loc, src_loc)


class _Transfers(HybridLinearPool):
    label = "Transferable"

    @classmethod
    def fits(cls, sides: Sequence[Side], /) -> bool:
        """Can every byte of the leaf be exported by page, scales among the rows?"""
        return exports_pages(sides[0].leaf) and not all_block_scaled(sides)

    def get_contiguous_buf_infos(self) -> BufInfos:
        """The attention leaf by page: its rows, then its index rows and scales if any."""
        return page_infos(self.full_kv_pool)

    def maybe_get_custom_mem_pool(self) -> object | None:
        """The memory pool of the leaf's buffers."""
        return cast("Transferable", self.full_kv_pool).maybe_get_custom_mem_pool()


class _TransfersBesideScales(_Transfers):
    @classmethod
    def fits(cls, sides: Sequence[Side], /) -> bool:
        """Can every byte of the leaf be exported by page, scales by a list of their own?"""
        return exports_pages(sides[0].leaf) and all_block_scaled(sides)

    def get_contiguous_buf_infos(self) -> BufInfos:
        """The rows of the attention leaf by page."""
        return row_infos(self.full_kv_pool)


class _LayerIds(HybridLinearPool):
    label = "LayerIdReporting"

    @classmethod
    def fits(cls, sides: Sequence[Side], /) -> bool:
        """Is the layer of every exported region known, scales among the rows?"""
        return names_layers(sides[0]) and not all_block_scaled(sides)

    def get_kv_layer_ids(self) -> list[int]:
        """The global layer id of each region of the attention leaf."""
        return page_layer_ids(self._sides[0])


class _LayerIdsOfRows(_LayerIds):
    @classmethod
    def fits(cls, sides: Sequence[Side], /) -> bool:
        """Is the layer of every exported region known, scales apart?"""
        return names_layers(sides[0]) and all_block_scaled(sides)

    def get_kv_layer_ids(self) -> list[int]:
        """The global layer id of each region of the leaf's rows."""
        return super().get_kv_layer_ids()[: len(row_infos(self.full_kv_pool)[0])]


@dataclass(frozen=True, slots=True)
class HybridCopy:
    """The leaf's copy of the tokens, and the state pool's of the request's slots if asked for."""

    tokens: Any
    state: Any | None


class _HostCopies(HybridLinearPool):
    label = "HostCopyable"
    cpu_copy_carries_mamba = True

    @classmethod
    def fits(cls, sides: Sequence[Side], /) -> bool:
        """Can the leaf copy tokens to the host?"""
        return supports(sides[0].leaf, HostCopyable)

    def get_cpu_copy(
        self,
        indices: Tensor,
        mamba_indices: Tensor | None = None,
        req_pool_index: int | None = None,
    ) -> HybridCopy:
        """The tokens of the attention layers, with the state at `mamba_indices`."""
        leaf = cast("HostCopyable", self.full_kv_pool)
        tokens = leaf.get_cpu_copy(indices, req_pool_index=req_pool_index)
        state = None if mamba_indices is None else self.mamba_pool.get_cpu_copy(mamba_indices)
        return HybridCopy(tokens, state)

    def load_cpu_copy(
        self,
        kv_cache_cpu: HybridCopy,
        indices: Tensor,
        mamba_indices: Tensor | None = None,
        req_pool_index: int | None = None,
    ) -> None:
        """Restore the tokens to `indices` and the state to `mamba_indices`.

        :raises ValueError: for a copy with state and no slots for it, or slots and no state, and
            for one that the leaf or the state pool says does not fit (`ChecksCopies`): half a
            request is never restored.
        """
        if (kv_cache_cpu.state is None) is not (mamba_indices is None):
            held = "no state" if kv_cache_cpu.state is None else "state"
            given = "none were" if mamba_indices is None else "some were"
            raise ValueError(f"the copy holds {held}; state slots to load it into: {given} given")
        leaf = cast("HostCopyable", self.full_kv_pool)
        check_if_it_can(leaf, kv_cache_cpu.tokens, indices, req_pool_index=req_pool_index)
        if mamba_indices is not None:
            check_if_it_can(self.mamba_pool, kv_cache_cpu.state, mamba_indices)
        leaf.load_cpu_copy(kv_cache_cpu.tokens, indices, req_pool_index=req_pool_index)
        if mamba_indices is not None:
            self.mamba_pool.load_cpu_copy(kv_cache_cpu.state, mamba_indices)


class _Regions(Regions, HybridLinearPool):
    def buffer_regions(self) -> tuple[BufferRegion, ...]:
        """The leaf's regions under global layer ids, the state pool's if it has some, and tails."""
        state = self.mamba_pool
        told = state.buffer_regions() if supports(state, DeclaresRegions) else ()
        return tuple(sorted((*super().buffer_regions(), *told), key=lambda r: r.by_request))


class _Resumes(Resumes, HybridLinearPool):
    def restore_reserved(self) -> None:
        """Zero slot 0 of the leaf, and that of the state."""
        super().restore_reserved()
        cast("Resumable", self.mamba_pool).restore_reserved()


class _Traits(HybridLinearPool):
    label = "DeclaresTraits"

    @classmethod
    def fits(cls, sides: Sequence[Side], /) -> bool:
        """Does the leaf say what it is?"""
        return declares_traits(sides)

    @property
    def pool_traits(self) -> PoolTraits:
        """A hybrid; of its storage, what the attention leaf says."""
        return composite_traits(self._owning, "hybrid_linear", state_index_space="state_slot")


_PARTS = (
    *WRITE_DOORS,
    PrefixDoor,
    HeadGeometry,
    LatentDoors,
    IndexDoors,
    ScaleDoors,
    TailDoors,
    Sizes,
    _Regions,
    _Transfers,
    _TransfersBesideScales,
    _LayerIds,
    _LayerIdsOfRows,
    _HostCopies,
    _Moves,
    _Resumes,
    _Traits,
)
"""What a hybrid may have beyond `HybridLinearPool`, in the order of their names in a class."""


def hybrid_pool(
    *,
    full_kv_pool: KVLeaf,
    mamba_pool: StatePool,
    full_attention_layer_ids: Sequence[int],
    start_layer: int | None = None,
    end_layer: int | None = None,
) -> HybridLinearPool:
    """A hybrid with exactly what its attention leaf allows; arguments as `HybridLinearPool`."""
    side = Side("full", full_kv_pool, tuple(full_attention_layer_ids))
    parts = [part for part in _PARTS if part is not _Resumes or supports(mamba_pool, Resumable)]
    made = what_fits(HybridLinearPool, parts, (side,))
    return made(
        full_kv_pool=full_kv_pool,
        mamba_pool=mamba_pool,
        full_attention_layer_ids=full_attention_layer_ids,
        start_layer=start_layer,
        end_layer=end_layer,
    )
