"""Pools that store accepted drafts, right but for one fault each."""

# pyright: reportIncompatibleMethodOverride=false
# These pools are wrong on purpose.

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kvproto.kernels import prefix_locations, to_stored
from kvproto.protocols import MHALeafRequest, MLALeafRequest
from kvproto.reference import MHALeaf, MLALeaf

from .registry import mutant


@mutant("commit.prefix", serves=MHALeafRequest)
class StoresEveryDraft(MHALeaf):
    def set_kv_buffer_prefix_valid(
        self, layer: Any, loc_2d: Tensor, commit_lens: Tensor, *rows: Any, **named: Any
    ) -> None:
        every = torch.full_like(commit_lens, loc_2d.shape[1])
        super().set_kv_buffer_prefix_valid(layer, loc_2d, every, *rows, **named)


@mutant("commit.prefix", serves=MLALeafRequest)
class CountsAcrossRequests(MLALeaf):
    def set_kv_buffer_prefix_valid(
        self, layer: Any, loc_2d: Tensor, commit_lens: Tensor, *rows: Any, **named: Any
    ) -> None:
        lens, drafts = commit_lens.clamp(0, loc_2d.shape[1]), loc_2d.shape[1]
        kept = torch.arange(loc_2d.numel()) < lens.sum()
        loc = torch.where(kept, loc_2d.flatten(), 0)
        whole = torch.full_like(commit_lens, drafts)
        super().set_kv_buffer_prefix_valid(layer, loc.view(-1, drafts), whole, *rows, **named)


@mutant("commit.prefix", serves=MHALeafRequest)
class WipesWhatWasRejected(MHALeaf):
    def set_kv_buffer_prefix_valid(
        self,
        layer: Any,
        loc_2d: Tensor,
        commit_lens: Tensor,
        cache_k: Any,
        cache_v: Any,
        *options: Any,
        **named: Any,
    ) -> None:
        kept = torch.arange(loc_2d.shape[1]) < commit_lens.unsqueeze(1)
        gone = ~kept.flatten().view(-1, 1, 1)
        self.set_kv_buffer(
            layer, loc_2d.flatten(), cache_k.masked_fill(gone, 0), cache_v.masked_fill(gone, 0)
        )


@mutant("commit.guards", source="sgl-project/sglang#36207", serves=MHALeafRequest)
class CommitsToSlotZero(MHALeaf):
    def set_kv_buffer_prefix_valid(
        self,
        layer: Any,
        loc_2d: Tensor,
        commit_lens: Tensor,
        cache_k: Any,
        cache_v: Any,
        *options: Any,
        **named: Any,
    ) -> None:
        super().set_kv_buffer_prefix_valid(
            layer, loc_2d, commit_lens, cache_k, cache_v, *options, **named
        )
        kept = torch.arange(loc_2d.shape[1]) < commit_lens.unsqueeze(1)
        at_zero = (kept & (loc_2d == 0)).flatten().nonzero().flatten()
        if len(at_zero):
            local = layer.layer_id - self.start_layer
            rows = self._rows(cache_k[at_zero[:1]], at_zero[:1], self.head_dim, "cache_k")
            self.k_buffer[local][0] = to_stored(rows, self.dtype)[0]


@mutant("commit.unread-slots", serves=MHALeafRequest)
class ChecksEverySlot(MHALeaf):
    def set_kv_buffer_prefix_valid(
        self, layer: Any, loc_2d: Tensor, *rest: Any, **named: Any
    ) -> None:
        self._check(loc_2d.flatten())
        super().set_kv_buffer_prefix_valid(layer, loc_2d, *rest, **named)


@mutant("commit.unread-slots", serves=MLALeafRequest)
class DropsSlotsPastTheEnd(MLALeaf):
    def set_kv_buffer_prefix_valid(
        self, layer: Any, loc_2d: Tensor, *rest: Any, **named: Any
    ) -> None:
        inside = torch.where(loc_2d < self.size + self.page_size, loc_2d, 0)
        super().set_kv_buffer_prefix_valid(layer, inside, *rest, **named)


@mutant("commit.inputs", source="sgl-project/sglang#38178", serves=MHALeafRequest)
class ReadsSlotsAsIfDense(MHALeaf):
    def set_kv_buffer_prefix_valid(
        self, layer: Any, loc_2d: Tensor, *rest: Any, **named: Any
    ) -> None:
        dense = loc_2d.as_strided(loc_2d.shape, (loc_2d.shape[1], 1))
        super().set_kv_buffer_prefix_valid(layer, dense, *rest, **named)


@mutant("commit.refuses", serves=MHALeafRequest)
class TakesAnyNumberOfRows(MHALeaf):
    def set_kv_buffer_prefix_valid(
        self,
        layer: Any,
        loc_2d: Tensor,
        commit_lens: Tensor,
        cache_k: Any,
        cache_v: Any,
        *options: Any,
        **named: Any,
    ) -> None:
        loc = prefix_locations(loc_2d, commit_lens)[: cache_k.shape[0]]
        self.set_kv_buffer(layer, loc, cache_k, cache_v, *options, **named)


@mutant("commit.scales", source="sgl-project/sglang#18818", serves=MHALeafRequest)
class ForgetsTheScales(MHALeaf):
    def set_kv_buffer_prefix_valid(
        self,
        layer: Any,
        loc_2d: Tensor,
        commit_lens: Tensor,
        cache_k: Any,
        cache_v: Any,
        *options: Any,
        **named: Any,
    ) -> None:
        super().set_kv_buffer_prefix_valid(layer, loc_2d, commit_lens, cache_k, cache_v)


@mutant("sync-free.commit", source="sgl-project/sglang#36751", serves=MHALeafRequest)
class CompactsBeforeTheCommit(MHALeaf):
    def set_kv_buffer_prefix_valid(
        self,
        layer: Any,
        loc_2d: Tensor,
        commit_lens: Tensor,
        cache_k: Any,
        cache_v: Any,
        *options: Any,
        **named: Any,
    ) -> None:
        loc = prefix_locations(loc_2d, commit_lens)
        kept = loc.nonzero().flatten()
        if cache_k.shape[0] != loc.shape[0]:
            raise ValueError("rows and slots differ in number")
        self.set_kv_buffer(layer, loc[kept], cache_k[kept], cache_v[kept], *options, **named)
