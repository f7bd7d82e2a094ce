"""Multi-head attention in NVFP4: e4m3fn block scales under a scale per layer, and a workspace."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from kvproto.kernels import gather_rows, store_rows, to_fp8
from kvproto.kernels.batch_slots import batch_slots
from kvproto.protocols import AttentionLayer

from .block_scaled import Side
from .fp4 import FourBitLeaf
from .workspace_rows import Placed, batch_places

__all__ = ["NVFP4Leaf"]


_SIDES: tuple[Side, Side] = ("k", "v")


class NVFP4Leaf(FourBitLeaf):
    """A leaf of packed rows under e4m3fn scales, `[size + page_size, head_num, width // 16]`.

    `k_global_scales` and `v_global_scales`, float32 `[layer_num]` in local order, are the scales
    that block scales are under: 1 until whoever loads the model fills them, before the first
    write. All read doors multiply by them. A scale given to a write is used in place of the
    layer's own, and is then the reader's to know.

    Read doors return a fresh bfloat16 copy, `get_raw_kv_buffer` aliases what is stored, and the
    e4m3fn workspace, a row per slot and saturated, serves one layer at a time. Constructor and
    refusals as `FourBitLeaf`.
    """

    # Declared, so that a capability check is settled on the class (see `kvproto.adopt`).
    dq_k_buffer: Tensor
    dq_v_buffer: Tensor
    k_global_scales: Tensor
    v_global_scales: Tensor
    _scheme = "nvfp4"
    _scale_dtype = torch.float8_e4m3fn
    _flat_scales = False

    def _allocate(self) -> None:
        super()._allocate()
        slots = self.size + self.page_size if self.layer_num else 0
        self._dq_bytes = [
            torch.zeros((slots, self.head_num, width), dtype=torch.uint8, device=self.device)
            for width in (self.head_dim, self.v_head_dim)
        ]
        self.dq_k_buffer, self.dq_v_buffer = (
            each.view(torch.float8_e4m3fn) for each in self._dq_bytes
        )

    def _prepare_scales(self) -> None:
        super()._prepare_scales()
        self.k_global_scales = torch.ones(self.layer_num, device=self.device)
        self.v_global_scales = torch.ones(self.layer_num, device=self.device)

    def _own_scale(self, local: int, side: Side) -> Tensor:
        return (self.k_global_scales if side == "k" else self.v_global_scales)[local]

    def get_kv_size_bytes(self) -> tuple[int, int]:
        """Bytes of both sides: elements, scales and workspace, the reserved page included."""
        k, v = super().get_kv_size_bytes()
        return k + self.dq_k_buffer.nbytes, v + self.dq_v_buffer.nbytes

    def get_dequant_workspace(self) -> tuple[Tensor, Tensor]:
        """`[size + page_size, head_num, head_dim | v_head_dim]` e4m3fn; aliases."""
        return self.dq_k_buffer, self.dq_v_buffer

    def get_flashinfer_dequant_workspace_kv_buffer(
        self,
        layer: AttentionLayer,
        req_to_token: Tensor,
        req_pool_indices_cpu: Sequence[int] | Tensor,
        extend_prefix_lens_cpu: Sequence[int] | Tensor,
        extend_seq_lens_cpu: Sequence[int] | Tensor,
        page_size: int,
        *,
        prepare_workspace: bool,
        use_ragged: bool,
        k_cur: Tensor | None = None,
        v_cur: Tensor | None = None,
        layer_id_override: int | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The workspace holding a prefill batch, as `FP4Workspace` says.

        :raises ValueError: for a layer the pool does not own, or a batch that the workspace cannot
            hold; nothing is written.
        """
        layer_id = layer.layer_id if layer_id_override is None else layer_id_override
        local = self._fenced(layer_id)
        if prepare_workspace:
            new = None if use_ragged or k_cur is None or v_cur is None else (k_cur, v_cur)
            extends = extend_seq_lens_cpu if new else [0] * len(extend_seq_lens_cpu)
            places = batch_places(
                req_pool_indices_cpu,
                extend_prefix_lens_cpu,
                extends,
                page_size,
                self.size + self.page_size,
            )
            self._place_prefixes(local, req_to_token, places)
            if new:
                self._place_new(places, *new)
        return self.get_dequant_workspace()

    def get_flashinfer_decode_dequant_workspace_kv_buffer(
        self,
        layer: AttentionLayer,
        req_to_token: Tensor,
        req_pool_indices: Tensor,
        seq_lens: Tensor,
        *,
        layer_id_override: int | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The workspace holding all tokens of a decode batch, each at its own slot."""
        layer_id = layer.layer_id if layer_id_override is None else layer_id_override
        local = self._fenced(layer_id)
        slots = batch_slots(req_to_token, req_pool_indices, seq_lens)
        for side, target in zip(_SIDES, self._dq_bytes, strict=True):
            store_rows(target, slots, self._as_fp8(local, side, slots))
        return self.get_dequant_workspace()

    def _place_prefixes(self, local: int, req_to_token: Tensor, places: Sequence[Placed]) -> None:
        for placed in places:
            cached = req_to_token[placed.row, : placed.prefix]
            for side, target in zip(_SIDES, self._dq_bytes, strict=True):
                rows = self._as_fp8(local, side, cached)
                target[placed.start : placed.start + placed.prefix] = rows

    def _place_new(self, places: Sequence[Placed], k_cur: Tensor, v_cur: Tensor) -> None:
        for given, target in zip((k_cur, v_cur), self._dq_bytes, strict=True):
            rows, taken = _fp8_bytes(given).view(-1, *target.shape[1:]), 0
            for placed in places:
                first = placed.start + placed.prefix
                target[first : first + placed.extend] = rows[taken : taken + placed.extend]
                taken += placed.extend

    def _as_fp8(self, local: int, side: Side, loc: Tensor) -> Tensor:
        elements, scales = (gather_rows(each, loc) for each in self._stored(local, side))
        return _fp8_bytes(self._read(elements, scales, local, side, torch.float32))


def _fp8_bytes(rows: Tensor) -> Tensor:
    return to_fp8(rows, torch.float8_e4m3fn).view(torch.uint8)
