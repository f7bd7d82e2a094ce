"""Pools that a memory saver cannot take from, or give back to."""

# pyright: reportIncompatibleMethodOverride=false
# These pools are wrong on purpose.

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kvproto.protocols import DSALeafRequest, MHALeafRequest, MLALeafRequest, StatePoolRequest
from kvproto.reference import DSALeaf, MHALeaf, MLALeaf, RecurrentStatePool

from .registry import mutant


@mutant("memory-saver.region", source="sgl-project/sglang#15246", serves=DSALeafRequest)
class AllocatesIndexKeysOutside(DSALeaf):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        inside = self.index_k_with_scale_buffer
        self.index_k_with_scale_buffer = [torch.zeros_like(pages) for pages in inside]


@mutant("memory-saver.region", source="fzyzcjy/torch_memory_saver#85", serves=MLALeafRequest)
class AllocatesScratchInside(MLALeaf):
    def _zeros(self, *row: int) -> list[Tensor]:
        self.scratch = torch.zeros(1)
        return super()._zeros(*row)


@mutant("memory-saver.region-state", serves=StatePoolRequest)
class AllocatesStateOutside(RecurrentStatePool):
    def __init__(self, *, enable_memory_saver: bool = False, **named: Any) -> None:
        super().__init__(enable_memory_saver=False, **named)


@mutant("memory-saver.paused", serves=MHALeafRequest)
class LooksForItsLastRow(MHALeaf):
    def get_kv_size_bytes(self) -> tuple[int, int]:
        self.used = bool(self.k_buffer and self.k_buffer[-1][-1].any())
        return super().get_kv_size_bytes()


@mutant("memory-saver.resume", source="sgl-project/sglang#15246", serves=DSALeafRequest)
class ForgetsIndexKeysOfSlotZero(DSALeaf):
    def restore_reserved(self) -> None:
        MLALeaf.restore_reserved(self)


@mutant("memory-saver.resume", source="sgl-project/sglang#15246", serves=MHALeafRequest)
class ForgetsWhatWasWrittenSince(MHALeaf):
    def restore_reserved(self) -> None:
        for buffer in self._row_buffers():
            buffer.zero_()


@mutant("memory-saver.resume-state", serves=StatePoolRequest)
class RestoresConvolutionsOnly(RecurrentStatePool):
    def restore_reserved(self) -> None:
        for tensor in self.mamba_cache.conv:
            tensor[:, 0].zero_()
