"""Index keys of several tokens each, and the tokens of a request that have none yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from kvproto.kernels import DecodedTokens, TailRings, check_locations, update_tails
from kvproto.kernels.pooled_slots import places_in_group, pooled_slots
from kvproto.protocols import BufferRegion

from .dsa import DSALeaf
from .dsa_split import SplitDSALeaf
from .host_rows import HostRows, check_copied
from .memory_saver import kv_cache_region
from .mla_layout import tail_region

__all__ = ["CompressedDSALeaf", "PooledCopy", "PooledDSALeaf", "dsa_leaf"]

Tails = tuple[tuple[Tensor, Tensor], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PooledCopy(HostRows):
    """A copy of tokens, the place of each in its group of `index_kpool`, and the request's rings.

    Index keys are those of the last token of each group. `tails` are keys and scores of each layer
    with index keys, None where no request was named.
    """

    places: Tensor
    tails: Tails | None = None


class PooledDSALeaf(DSALeaf):
    """Latent rows per token, and an index key with its scale per `index_kpool` tokens.

    Keywords are those of `DSALeaf`. `index_kpool` is more than 1 and divides `page_size`; index
    pages have `page_size / index_kpool` keys and the numbers of the token pages. A group's key
    goes with the group's last token: a host copy holds it with that token, and loads into slots
    that have the same places in their groups. Tokens of a group cannot be moved one by one, so
    that nothing is moved.

    :raises ValueError: for impossible geometry, before anything is allocated.
    """

    # Not supported: a key of several tokens cannot follow one of them.
    move_kv_cache = None  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]

    @classmethod
    def _check_pooling(cls, index_kpool: int, page_size: int, index_kpool_compress: bool) -> None:
        if index_kpool < 2 or page_size % index_kpool:
            raise ValueError(
                f"index_kpool={index_kpool}: must be at least 2 and divide page_size={page_size}"
            )
        if index_kpool_compress:
            raise ValueError(
                "index_kpool_compress=True: a PooledDSALeaf does not weigh the tokens of a group, "
                "a CompressedDSALeaf does; dsa_leaf takes the same keywords and picks the class"
            )

    def _places(self, indices: Tensor) -> Tensor:
        return places_in_group(indices, self.index_kpool)

    def _index_slots(self, indices: Tensor) -> Tensor:
        return pooled_slots(indices, self.index_kpool)

    def get_cpu_copy(
        self,
        indices: Tensor,
        mamba_indices: Tensor | None = None,
        req_pool_index: int | None = None,
    ) -> PooledCopy:
        """The rows of the given locations, and the index keys of the groups that end there."""
        copy = super().get_cpu_copy(indices)
        return PooledCopy(
            copy.rows,
            copy.count,
            copy.index_keys,
            copy.meaning,
            places=_on_host(self._places(indices)),
            tails=self._tails_of(req_pool_index),
        )

    def load_cpu_copy(
        self,
        kv_cache_cpu: HostRows,
        indices: Tensor,
        mamba_indices: Tensor | None = None,
        req_pool_index: int | None = None,
    ) -> None:
        """Write a copy back, to these locations; as many as it was made from.

        :raises ValueError: for locations at other places of their groups, and for a copy that no
            pooled leaf made; nothing is written.
        """
        super().load_cpu_copy(kv_cache_cpu, indices, req_pool_index=req_pool_index)
        self._load_tails(cast("PooledCopy", kv_cache_cpu).tails, req_pool_index)

    def check_cpu_copy(
        self, kv_cache_cpu: HostRows, indices: Tensor, /, *, req_pool_index: int | None = None
    ) -> None:
        """Nothing, or what `load_cpu_copy` raises."""
        if not isinstance(kv_cache_cpu, PooledCopy):
            raise ValueError("the copy holds an index key per token, here several tokens share one")
        self._check_tails(kv_cache_cpu.tails, req_pool_index)
        to, places = indices.to("cpu"), kv_cache_cpu.places
        if to.shape == places.shape and ((self._places(to) != places) & (to > 0)).any():
            raise ValueError(
                f"a token would change its place among the {self.index_kpool} that share an index "
                "key; nothing was written"
            )
        super().check_cpu_copy(kv_cache_cpu, indices)

    def _tails_of(self, req_pool_index: int | None) -> Tails | None:
        return None

    def _check_tails(self, tails: Tails | None, req_pool_index: int | None) -> None:
        """:raises ValueError: for a copy that does not belong to such a call."""

    def _load_tails(self, tails: Tails | None, req_pool_index: int | None) -> None:
        """Put the rings back, where there are any."""


class CompressedDSALeaf(PooledDSALeaf):
    """A pooled leaf that weighs the tokens of a group, and holds those of unfinished groups.

    For each layer with index keys there is a ring of raw keys and one of scores per request row,
    `[max_running_requests + 1, index_kpool + tail_extra_slots, index_head_dim]` in bf16. Row 0
    belongs to no request: what aims at it is dropped. The rings go with a host copy of their
    request. Keywords are those of `DSALeaf`.

    :raises ValueError: for impossible geometry, before anything is allocated, and where
        `index_kpool_compress` is off.
    """

    # Declared, so that a capability check is settled on the class (see `kvproto.adopt`).
    index_kpool_compress: bool
    kpool_use_compress: bool
    tail_extra_slots: int
    _tail_keys: list[Tensor]
    _tail_scores: list[Tensor]

    def __init__(
        self,
        *,
        index_kpool_compress: bool = True,
        tail_extra_slots: int = 0,
        max_running_requests: int | None = None,
        enable_memory_saver: bool = False,
        **keywords: Any,
    ) -> None:
        if not index_kpool_compress:
            raise ValueError(
                "index_kpool_compress=False: a CompressedDSALeaf weighs the tokens of a group, a "
                "PooledDSALeaf does not; dsa_leaf takes the same keywords and picks the class"
            )
        if max_running_requests is None or max_running_requests < 1 or tail_extra_slots < 0:
            raise ValueError(
                f"max_running_requests={max_running_requests}, tail_extra_slots="
                f"{tail_extra_slots}: rings need at least one request and no negative extra"
            )
        width = int(keywords.get("index_head_dim", 1))
        if width & (width - 1):
            raise ValueError(f"index_head_dim={width}: weighed keys need a power of two")
        super().__init__(**keywords, enable_memory_saver=enable_memory_saver)
        self.index_kpool_compress = self.kpool_use_compress = True
        self.tail_extra_slots = tail_extra_slots
        with kv_cache_region(enable_memory_saver):
            self._tail_keys = self._rings(max_running_requests + 1)
            self._tail_scores = self._rings(max_running_requests + 1)

    def _rings(self, rows: int) -> list[Tensor]:
        shape = (self.index_kpool + self.tail_extra_slots, self.index_head_dim)
        return [
            torch.zeros((0 if skip else rows, *shape), dtype=torch.bfloat16, device=self.device)
            for skip in self.skip_topk_layers
        ]

    def get_compress_tail_buffers(self, layer_id: int, /) -> tuple[Tensor, Tensor]:
        """The key and score rings of a layer, aliases; `[0, ...]` for a layer without keys."""
        local = self._fenced(layer_id)
        return self._tail_keys[local], self._tail_scores[local]

    def set_compress_tail_for_request(
        self,
        layer_id: int,
        req_pool_idx: Tensor,
        key_tail: Tensor,
        score_tail: Tensor,
        n_remain: int,
        dst_logical_start: int,
    ) -> None:
        """Put the last `n_remain` tokens of a prefill into the rings, as `KPoolTail` says."""
        rings = self._rings_with_keys(layer_id)
        shape = (n_remain, self.index_head_dim)
        _check_shapes(shape, key_tail=key_tail, score_tail=score_tail)
        if n_remain > rings.length:
            raise ValueError(f"n_remain={n_remain}: a ring holds {rings.length} tokens")
        row = _row(req_pool_idx, rings.keys.shape[0])
        rings.fill(row, dst_logical_start, key_tail, score_tail)

    def kpool_decode_update_index_cache(
        self,
        layer_id: int,
        key: Tensor,
        slot_score: Tensor,
        ape: Tensor,
        block_tables: Tensor,
        req_pool_indices: Tensor,
        positions: Tensor,
        seq_lens: Tensor,
        out_cache_loc: Tensor,
        round_scale: bool = False,
    ) -> None:
        """Add one decoded token per request, and write the keys that fill, as `KPoolTail` says."""
        n = key.shape[0]
        rings = self._rings_with_keys(layer_id)
        _check_shapes((n, self.index_head_dim), key=key, slot_score=slot_score)
        _check_shapes((self.index_kpool, self.index_head_dim), ape=ape)
        batch = (req_pool_indices, positions, seq_lens, out_cache_loc)
        requests, at, lens, loc = (each[:n].to(torch.int64) for each in batch)
        update_tails(
            self._pages_with_keys(self._fenced(layer_id), layer_id),
            rings,
            DecodedTokens(key, slot_score, requests, at, lens, loc),
            ape,
            block_tables[:n],
            self.index_page_size,
            round_scale=round_scale,
            layout=self._index.layout,
            dtype=self._index.dtype,
        )

    def _rings_with_keys(self, layer_id: int) -> TailRings:
        local = self._layers.local(layer_id)
        self._pages_with_keys(local, layer_id)
        return TailRings(self._tail_keys[local], self._tail_scores[local])

    def _own_rings(self) -> list[TailRings]:
        pairs = zip(self._tail_keys, self._tail_scores, strict=True)
        return [TailRings(*pair) for pair in pairs if pair[0].shape[0]]

    def restore_reserved(self) -> None:
        """Zero what a new pool has zero: slot 0 of the rows, page 0 of the keys, row 0 of rings."""
        super().restore_reserved()
        for rings in self._own_rings():
            for ring in rings:
                ring[0].zero_()

    def _tails_of(self, req_pool_index: int | None) -> Tails | None:
        if req_pool_index is None:
            return None
        row = max(req_pool_index, 0)
        return tuple((_on_host(r.keys[row]), _on_host(r.scores[row])) for r in self._own_rings())

    def _check_tails(self, tails: Tails | None, req_pool_index: int | None) -> None:
        if (tails is None) is not (req_pool_index is None):
            held = "no rings" if tails is None else "rings"
            given = "none" if req_pool_index is None else f"row {req_pool_index}"
            raise ValueError(f"the copy holds {held}, the request row to load them into is {given}")
        rings = self._own_rings()
        if tails is None or req_pool_index is None:
            return
        if len(tails) != len(rings):
            raise ValueError(
                f"the copy holds rings of {len(tails)} layers, {len(rings)} layers here have some; "
                "nothing was written"
            )
        for ring, copied in zip(rings, tails, strict=True):
            if req_pool_index >= ring.keys.shape[0]:
                raise IndexError(
                    f"req_pool_index={req_pool_index} is past the last row "
                    f"{ring.keys.shape[0] - 1} of the rings; nothing was written"
                )
            for rows, row in zip(ring, copied, strict=True):
                check_copied(row, tuple(rows.shape[1:]), rows.dtype)

    def _load_tails(self, tails: Tails | None, req_pool_index: int | None) -> None:
        if tails is None or req_pool_index is None or req_pool_index < 1:
            return
        for rings, held in zip(self._own_rings(), tails, strict=True):
            for ring, rows in zip(rings, held, strict=True):
                ring[req_pool_index] = rows.to(self.device)

    def get_compress_tail_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        """The rings by request row: keys of every layer, then scores; 0 bytes without keys."""
        rings = [*self._tail_keys, *self._tail_scores]
        items = [ring[0].nbytes if ring.shape[0] else 0 for ring in rings]
        return [ring.data_ptr() for ring in rings], [ring.nbytes for ring in rings], items

    def buffer_regions(self) -> tuple[BufferRegion, ...]:
        """The rows, the index pages, and by request row the rings of keys and of scores."""
        ids = self._keyed_layer_ids
        if not ids:
            return super().buffer_regions()
        keys, scores = ([rings[side] for rings in self._own_rings()] for side in (0, 1))
        tails = (tail_region("tail_key", keys, ids), tail_region("tail_score", scores, ids))
        return (*super().buffer_regions(), *tails)

    def get_kv_size_bytes(self) -> int:
        """Bytes of all rows, index pages and rings, reserved ones included."""
        rings = (*self._tail_keys, *self._tail_scores)
        return super().get_kv_size_bytes() + sum(ring.nbytes for ring in rings)


def dsa_leaf(
    *, index_kpool: int = 1, index_kpool_compress: bool = False, **keywords: Any
) -> DSALeaf:
    """The leaf for a constructor's keywords: with a key per token or per group, weighed or not, of
    every token or of one rank's.

    :raises ValueError: as the leaves' constructors.
    """
    if index_kpool == 1:
        split = keywords.get("dcp_size", 1) > 1 and not keywords.get("dcp_replicated")
        return (SplitDSALeaf if split else DSALeaf)(**keywords)
    made = CompressedDSALeaf if index_kpool_compress else PooledDSALeaf
    return made(index_kpool=index_kpool, index_kpool_compress=index_kpool_compress, **keywords)


def _row(req_pool_idx: Tensor, rows: int) -> Tensor:
    row = req_pool_idx.reshape(()).to(torch.int64)
    check_locations(row.view(1), rows)
    return row


def _on_host(rows: Tensor) -> Tensor:
    return rows.to("cpu", copy=True)


def _check_shapes(shape: tuple[int, int], **given: Tensor) -> None:
    for name, tensor in given.items():
        if tensor.shape != shape:
            raise ValueError(
                f"{name} has shape {tuple(tensor.shape)}, must be {shape}; nothing was written"
            )
