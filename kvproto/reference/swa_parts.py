"""What a window pair can do when both of its leaves can."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from kvproto.kernels.locations import check_pairs
from kvproto.kernels.peer_table import drop_without_source
from kvproto.protocols import (
    HostCopyable,
    KPoolTail,
    KVLeaf,
    Movable,
    PoolTraits,
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
from .sides import Side
from .swa import FULL, SWAPool, swa_sides

__all__ = ["WindowedCopy", "swa_pool"]


class _Moves(SWAPool):
    label = "Movable"

    @classmethod
    def fits(cls, sides: Sequence[Side], /) -> bool:
        """Can every leaf move tokens?"""
        return all(supports(side.leaf, Movable) for side in sides)

    def move_kv_cache(self, tgt_loc: Tensor, src_loc: Tensor, /) -> None:
        """Move tokens in the full space, and in the window space those with a peer at both ends.

        :raises ValueError: for another number of sources than of targets; nothing is moved.
        """
        check_pairs(tgt_loc, src_loc)
        calls = [(side.leaf, *self._ends(side, tgt_loc, src_loc)) for side in self._owning]
        for leaf, targets, sources in calls:
            cast("Movable", leaf).move_kv_cache(targets, sources)

    def _ends(self, side: Side, tgt_loc: Tensor, src_loc: Tensor) -> tuple[Tensor, Tensor]:
        if side.role == FULL:
            return tgt_loc, src_loc
        targets = self.translate_loc_from_full_to_swa(tgt_loc)
        sources = self.translate_loc_from_full_to_swa(src_loc)
        return drop_without_source(targets, sources), sources


class _Transfers(SWAPool):
    label = "Transferable"

    @classmethod
    def fits(cls, sides: Sequence[Side], /) -> bool:
        """Can every byte of both leaves be exported by page, scales among the rows?"""
        return all(exports_pages(side.leaf) for side in sides) and not all_block_scaled(sides)

    def get_contiguous_buf_infos(self) -> BufInfos:
        """The full side, by full pages: its rows, then its index rows and scales if any."""
        return page_infos(self.full_kv_pool)

    def get_state_buf_infos(self) -> BufInfos:
        """The window side, by window pages, in the same order."""
        return page_infos(self.swa_kv_pool)

    def maybe_get_custom_mem_pool(self) -> object | None:
        """The memory pool of the lead leaf's buffers."""
        return cast("Transferable", self.lead).maybe_get_custom_mem_pool()


class _TransfersBesideScales(_Transfers):
    @classmethod
    def fits(cls, sides: Sequence[Side], /) -> bool:
        """Can every byte of both leaves be exported by page, scales by a list of their own?"""
        return all(exports_pages(side.leaf) for side in sides) and all_block_scaled(sides)

    def get_contiguous_buf_infos(self) -> BufInfos:
        """The rows of the full side, by full pages."""
        return row_infos(self.full_kv_pool)


class _LayerIds(SWAPool):
    label = "LayerIdReporting"

    @classmethod
    def fits(cls, sides: Sequence[Side], /) -> bool:
        """Is the layer of every exported region known, scales among the rows?"""
        return all(names_layers(side) for side in sides) and not all_block_scaled(sides)

    def get_kv_layer_ids(self) -> list[int]:
        """The global layer id of each region of the full side."""
        return page_layer_ids(self._sides[0])


class _LayerIdsOfRows(_LayerIds):
    @classmethod
    def fits(cls, sides: Sequence[Side], /) -> bool:
        """Is the layer of every exported region known, scales apart?"""
        return all(names_layers(side) for side in sides) and all_block_scaled(sides)

    def get_kv_layer_ids(self) -> list[int]:
        """The global layer id of each region of the full side's rows."""
        return super().get_kv_layer_ids()[: len(row_infos(self.full_kv_pool)[0])]


@dataclass(frozen=True, slots=True)
class WindowedCopy:
    """The leaves' copies; `has_peer` is bool `[n]` on the CPU, True where the window has a row."""

    full: Any | None
    window: Any | None
    has_peer: Tensor


class _HostCopies(SWAPool):
    label = "HostCopyable"
    cpu_copy_carries_mamba = False

    @classmethod
    def fits(cls, sides: Sequence[Side], /) -> bool:
        """Can every leaf copy tokens to the host?"""
        return all(supports(side.leaf, HostCopyable) for side in sides)

    def get_cpu_copy(
        self,
        indices: Tensor,
        mamba_indices: Tensor | None = None,
        req_pool_index: int | None = None,
    ) -> WindowedCopy:
        """The full rows of all locations, and the window rows of those that have a peer."""
        full, window = None, None
        if self.full_layer_nums:
            leaf = cast("HostCopyable", self.full_kv_pool)
            full = leaf.get_cpu_copy(indices, req_pool_index=req_pool_index)
        peers = self._window_slots(indices)
        has_peer = peers > 0
        if has_peer.any() or supports(self.swa_kv_pool, KPoolTail):
            leaf = cast("HostCopyable", self.swa_kv_pool)
            window = leaf.get_cpu_copy(peers[has_peer], req_pool_index=req_pool_index)
        return WindowedCopy(full, window, has_peer.cpu())

    def load_cpu_copy(
        self,
        kv_cache_cpu: WindowedCopy,
        indices: Tensor,
        mamba_indices: Tensor | None = None,
        req_pool_index: int | None = None,
    ) -> None:
        """Restore both sides; a window row whose token has no peer any more is left out.

        :raises ValueError: for another number of locations, or a copy that one of the leaves says
            does not fit (`ChecksCopies`); nothing is written.
        """
        held = self._held(kv_cache_cpu, indices)
        for leaf, copy, targets in held:
            check_if_it_can(leaf, copy, targets, req_pool_index=req_pool_index)
        for leaf, copy, targets in held:
            leaf.load_cpu_copy(copy, targets, req_pool_index=req_pool_index)

    def _held(self, copy: WindowedCopy, indices: Tensor) -> list[tuple[HostCopyable, Any, Tensor]]:
        """The leaves that the copy has rows of, those rows, and where they go."""
        count = copy.has_peer.shape[0]
        if count != indices.shape[0]:
            raise ValueError(f"the copy holds {count} rows, asked to load {indices.shape[0]}")
        if (copy.full is None) is bool(self.full_layer_nums):
            raise ValueError(
                f"the copy holds {'no' if copy.full is None else 'some'} full rows, there are "
                f"{self.full_layer_nums} full layers; nothing was written"
            )
        peers, held = self._window_slots(indices), list[tuple[HostCopyable, Any, Tensor]]()
        if copy.full is not None:
            held.append((cast("HostCopyable", self.full_kv_pool), copy.full, indices))
        if copy.window is not None:
            # Peers that are gone are 0, which every writer of a leaf drops.
            targets = peers[copy.has_peer.to(peers.device)]
            held.append((cast("HostCopyable", self.swa_kv_pool), copy.window, targets))
        return held

    def _window_slots(self, indices: Tensor) -> Tensor:
        if not self.swa_layer_nums:
            return torch.zeros_like(indices)
        return self.translate_loc_from_full_to_swa(indices)


class _Traits(SWAPool):
    label = "DeclaresTraits"

    @classmethod
    def fits(cls, sides: Sequence[Side], /) -> bool:
        """Does every leaf say what it is?"""
        return declares_traits(sides)

    @property
    def pool_traits(self) -> PoolTraits:
        """A mapped window pair; of its storage, what the first leaf with a layer says."""
        return composite_traits(
            self._owning, "swa", swa_storage="mapped_pool", state_index_space="swa_pages"
        )


_PARTS = (
    *WRITE_DOORS,
    PrefixDoor,
    HeadGeometry,
    LatentDoors,
    IndexDoors,
    ScaleDoors,
    TailDoors,
    Sizes,
    Regions,
    _Transfers,
    _TransfersBesideScales,
    _LayerIds,
    _LayerIdsOfRows,
    _HostCopies,
    _Moves,
    Resumes,
    _Traits,
)
"""What a window pair may have beyond `SWAPool`, in the order of their names in a class."""


def swa_pool(
    *,
    full_kv_pool: KVLeaf,
    swa_kv_pool: KVLeaf,
    full_attention_layer_ids: Sequence[int],
    swa_attention_layer_ids: Sequence[int],
    start_layer: int | None = None,
    end_layer: int | None = None,
) -> SWAPool:
    """A window pair with exactly what its leaves allow; arguments as `SWAPool` takes them.

    It moves, copies and exports tokens where both leaves do, takes scales or latent parts where
    both do, has block scales where both have them, and keeps index keys where one does. A leaf
    without a layer has no say.
    """
    sides = swa_sides(full_kv_pool, swa_kv_pool, full_attention_layer_ids, swa_attention_layer_ids)
    made = what_fits(SWAPool, _PARTS, sides)
    return made(
        full_kv_pool=full_kv_pool,
        swa_kv_pool=swa_kv_pool,
        full_attention_layer_ids=full_attention_layer_ids,
        swa_attention_layer_ids=swa_attention_layer_ids,
        start_layer=start_layer,
        end_layer=end_layer,
    )
