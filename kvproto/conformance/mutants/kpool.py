"""Leaves whose index keys are of several tokens each, right but for one fault each."""

# pyright: reportIncompatibleMethodOverride=false
# These pools are wrong on purpose.

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from kvproto.kernels import TailRings
from kvproto.protocols import BufferRegion, DSALeafRequest
from kvproto.reference import CompressedDSALeaf, MLALeaf, PooledDSALeaf, dsa_leaf
from kvproto.reference.dsa_pooled import Tails

from .registry import mutant

Infos = tuple[list[int], list[int], list[int]]


def _compressed(cls: Any, request: Any) -> Any:
    return cls(**request.keywords()) if request.has_tails else dsa_leaf(**request.keywords())


def _pooled(cls: Any, request: Any) -> Any:
    pools = request.index_kpool > 1 and not request.has_tails
    return cls(**request.keywords()) if pools else dsa_leaf(**request.keywords())


@mutant("kpool.rings", serves=DSALeafRequest, build=_compressed)
class ForgetsTheExtraSlots(CompressedDSALeaf):
    def __init__(self, *args: Any, tail_extra_slots: int = 0, **named: Any) -> None:
        super().__init__(*args, tail_extra_slots=0, **named)


@mutant("kpool.prefill-tail", serves=DSALeafRequest, build=_compressed)
class StartsTailsAtZero(CompressedDSALeaf):
    def set_compress_tail_for_request(
        self,
        layer_id: Any,
        req_pool_idx: Any,
        key_tail: Any,
        score_tail: Any,
        n_remain: Any,
        dst_logical_start: Any,
    ) -> None:
        super().set_compress_tail_for_request(
            layer_id, req_pool_idx, key_tail, score_tail, n_remain, 0
        )


@mutant(
    "kpool.prefill-tail",
    source="lightseekorg/tokenspeed#709",
    serves=DSALeafRequest,
    build=_compressed,
)
class WrapsNegativeRows(CompressedDSALeaf):
    def set_compress_tail_for_request(
        self, layer_id: Any, req_pool_idx: Any, *tail: Any, **named: Any
    ) -> None:
        last = self._rings_with_keys(layer_id).keys.shape[0] - 1
        row = torch.where(req_pool_idx < 0, last, req_pool_idx)
        super().set_compress_tail_for_request(layer_id, row, *tail, **named)


class _ChangedStep(CompressedDSALeaf):
    """Changes what a decode step is given."""

    def _changed(self, given: dict[str, Any]) -> dict[str, Any]:
        return given

    def kpool_decode_update_index_cache(
        self,
        layer_id: int,
        key: Any,
        slot_score: Any,
        ape: Any,
        block_tables: Any,
        req_pool_indices: Any,
        positions: Any,
        seq_lens: Any,
        out_cache_loc: Any,
        round_scale: bool = False,
    ) -> None:
        given = {
            "key": key,
            "slot_score": slot_score,
            "ape": ape,
            "block_tables": block_tables,
            "req_pool_indices": req_pool_indices,
            "positions": positions,
            "seq_lens": seq_lens,
            "out_cache_loc": out_cache_loc,
            "round_scale": round_scale,
        }
        super().kpool_decode_update_index_cache(layer_id, **self._changed(given))


@mutant("kpool.decode", serves=DSALeafRequest, build=_compressed)
class IgnoresTheBias(_ChangedStep):
    def _changed(self, given: dict[str, Any]) -> dict[str, Any]:
        return given | {"ape": torch.zeros_like(given["ape"])}


@mutant("kpool.decode", serves=DSALeafRequest, build=_compressed)
class ReadsTablesFromTheirEnd(_ChangedStep):
    def _changed(self, given: dict[str, Any]) -> dict[str, Any]:
        tables = given["block_tables"]
        return given | {"block_tables": tables.flip(1)}


@mutant("kpool.decode", serves=DSALeafRequest, build=_compressed)
class AveragesInsteadOfWeighing(_ChangedStep):
    def _changed(self, given: dict[str, Any]) -> dict[str, Any]:
        return given | {"slot_score": torch.zeros_like(given["slot_score"])}


@mutant("kpool.round-scale", serves=DSALeafRequest, build=_compressed)
class NeverRoundsTheScale(_ChangedStep):
    def _changed(self, given: dict[str, Any]) -> dict[str, Any]:
        return given | {"round_scale": False}


@mutant(
    "kpool.padding", source="sgl-project/sglang#36207", serves=DSALeafRequest, build=_compressed
)
class CountsTokensWithoutLocation(_ChangedStep):
    def _changed(self, given: dict[str, Any]) -> dict[str, Any]:
        return given | {"out_cache_loc": given["out_cache_loc"].clamp(min=1)}


@mutant("kpool.padding", serves=DSALeafRequest, build=_compressed)
class CountsTokensPastTheEnd(_ChangedStep):
    def _changed(self, given: dict[str, Any]) -> dict[str, Any]:
        longest = torch.full_like(given["seq_lens"], 1 << 20)
        return given | {"seq_lens": longest}


@mutant(
    "kpool.refuses", source="sgl-project/sglang#22605", serves=DSALeafRequest, build=_compressed
)
class AnswersForAnyLayer(CompressedDSALeaf):
    def _rings_with_keys(self, layer_id: int) -> TailRings:
        local = (layer_id - self.start_layer) % self.layer_num
        return TailRings(self._tail_keys[local], self._tail_scores[local])


@mutant(
    "kpool.transfer", source="sgl-project/sglang#26490", serves=DSALeafRequest, build=_compressed
)
class ExportsTokensOfRings(CompressedDSALeaf):
    def get_compress_tail_buf_infos(self) -> Infos:
        pointers, lengths, items = super().get_compress_tail_buf_infos()
        length = self.index_kpool + self.tail_extra_slots
        return pointers, lengths, [item // length for item in items]


@mutant(
    "kpool.host-copy", source="sgl-project/sglang#36121", serves=DSALeafRequest, build=_compressed
)
class LeavesTailsBehind(CompressedDSALeaf):
    def _load_tails(self, tails: Tails | None, req_pool_index: int | None) -> None:
        pass


@mutant("transfer.loopback", serves=DSALeafRequest, build=_compressed)
class DeclaresTheRingOfTheRowAfter(CompressedDSALeaf):
    """Row 0 of the key rings is row 1, and the last row is none."""

    def buffer_regions(self) -> tuple[BufferRegion, ...]:
        return tuple(
            _from_row_one(region) if region.fields[0].name == "tail_key" else region
            for region in super().buffer_regions()
        )


def _from_row_one(region: BufferRegion) -> BufferRegion:
    bases = tuple(base + region.bytes_per_page for base in region.bases)
    return replace(region, bases=bases, page_count=region.page_count - 1, alignment=1)


@mutant("indexer.group-copy", serves=DSALeafRequest, build=_pooled)
class CopiesNoPooledKeys(PooledDSALeaf):
    def get_cpu_copy(self, indices: Tensor, *rest: Any, **named: Any) -> Any:
        copy = super().get_cpu_copy(indices, *rest, **named)
        blank = tuple((torch.zeros_like(k), torch.zeros_like(s)) for k, s in copy.index_keys)
        return replace(copy, index_keys=blank)


@mutant(
    "indexer.group-move", source="sgl-project/sglang#31215", serves=DSALeafRequest, build=_pooled
)
class MovesWithoutThePooledKey(PooledDSALeaf):
    def move_kv_cache(self, tgt_loc: Tensor, src_loc: Tensor, /) -> None:  # type: ignore[override]
        MLALeaf.move_kv_cache(self, tgt_loc, src_loc)


@mutant(
    "sync-free.kpool", source="sgl-project/sglang#36751", serves=DSALeafRequest, build=_compressed
)
class LooksForFullGroups(_ChangedStep):
    def _changed(self, given: dict[str, Any]) -> dict[str, Any]:
        full = (given["positions"] % self.index_kpool == self.index_kpool - 1).any()
        return given if bool(full) or not bool(full) else {}


@mutant("size.bytes", serves=DSALeafRequest, build=_compressed)
class ForgetsTheRings(CompressedDSALeaf):
    def get_kv_size_bytes(self) -> int:
        return PooledDSALeaf.get_kv_size_bytes(self)


@mutant(
    "memory-saver.region",
    source="sgl-project/sglang#19029",
    serves=DSALeafRequest,
    build=_compressed,
)
class AllocatesRingsOutside(CompressedDSALeaf):
    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._tail_keys = [ring.clone() for ring in self._tail_keys]
