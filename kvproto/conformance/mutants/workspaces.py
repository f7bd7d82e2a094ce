"""Workspaces of 8-bit rows for 4-bit ones, right but for one fault each."""

# pyright: reportIncompatibleMethodOverride=false
# These pools are wrong on purpose.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from kvproto.reference import NVFP4Leaf

from .blocks import blocks

_Door = Callable[..., tuple[Tensor, Tensor]]


@blocks("workspace.raw")
class ShowsTheFirstLayerRaw(NVFP4Leaf):
    def get_raw_kv_buffer(self, layer_id: int, /) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return super().get_raw_kv_buffer(self.start_layer)


@blocks("workspace.decode")
class ReadsPastALength(NVFP4Leaf):
    def get_flashinfer_decode_dequant_workspace_kv_buffer(
        self, *arguments: Any, **named: Any
    ) -> tuple[Tensor, Tensor]:
        *batch, lens = arguments
        door: Callable[..., tuple[Tensor, Tensor]] = (
            super().get_flashinfer_decode_dequant_workspace_kv_buffer
        )
        return door(*batch, torch.full_like(lens, int(lens.max())), **named)


@blocks("workspace.prefill")
class StartsOnTheReservedPage(NVFP4Leaf):
    def get_flashinfer_dequant_workspace_kv_buffer(
        self, *arguments: Any, **named: Any
    ) -> tuple[Tensor, Tensor]:
        *batch, _ = arguments
        door: Callable[..., tuple[Tensor, Tensor]] = (
            super().get_flashinfer_dequant_workspace_kv_buffer
        )
        return door(*batch, 1, **named)


@blocks("workspace.prefill")
class CopiesNewRowsToARaggedBatch(NVFP4Leaf):
    def get_flashinfer_dequant_workspace_kv_buffer(
        self, *arguments: Any, use_ragged: bool, **named: Any
    ) -> tuple[Tensor, Tensor]:
        door: Callable[..., tuple[Tensor, Tensor]] = (
            super().get_flashinfer_dequant_workspace_kv_buffer
        )
        return door(*arguments, use_ragged=False, **named)


@blocks("workspace.prepared")
class PreparesAgain(NVFP4Leaf):
    def get_flashinfer_dequant_workspace_kv_buffer(
        self, *arguments: Any, prepare_workspace: bool, **named: Any
    ) -> tuple[Tensor, Tensor]:
        door: Callable[..., tuple[Tensor, Tensor]] = (
            super().get_flashinfer_dequant_workspace_kv_buffer
        )
        return door(*arguments, prepare_workspace=True, **named)
