"""Pools for the demo, of every kind, with the allocators that lend their pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import torch

from kvproto.protocols import (
    Declined,
    DSALeafRequest,
    HybridPoolRequest,
    MHALeafRequest,
    MLALeafRequest,
    PoolRequest,
    SlotAllocator,
    StatePoolRequest,
    StateSlotAllocator,
    SWAPoolRequest,
)
from kvproto.reference import PageAllocator, StateSlots, SWAPairAllocator, build_reference_pool

__all__ = ["DEMO_POOLS", "DemoPool", "DemoPoolKind", "build_demo_pool"]

DemoPoolKind: TypeAlias = Literal["mha", "mla", "dsa", "swa", "hybrid"]

DEMO_POOLS: tuple[DemoPoolKind, ...] = get_args(DemoPoolKind)

_STATE_SLOTS = 4


@dataclass(frozen=True, slots=True)
class DemoPool:
    """A pool in host memory, and what lends its token slots and state slots."""

    pool: object
    allocator: SlotAllocator
    state_allocator: StateSlotAllocator | None = None


def build_demo_pool(kind: DemoPoolKind, *, pages: int, page_size: int, layers: int) -> DemoPool:
    """A pool of `pages` usable pages. Of `swa` and `hybrid` every other layer is of each kind.

    :raises ValueError: for sizes that no pool has.
    """
    pool = build_reference_pool(_request(kind, pages * page_size, page_size, layers))
    if isinstance(pool, Declined):
        raise ValueError(pool.reason)
    allocator: SlotAllocator = _allocator(pages * page_size, page_size, pool)
    if kind == "swa":
        window = _allocator(_window(pages) * page_size, page_size, pool)
        allocator = SWAPairAllocator(
            full_attn_allocator=_allocator(pages * page_size, page_size, pool),
            swa_attn_allocator=window,
            kvcache=pool,
        )
    state = StateSlots(_STATE_SLOTS, "cpu", strict=True) if kind == "hybrid" else None
    return DemoPool(pool, allocator, state)


def _allocator(size: int, page_size: int, pool: object) -> PageAllocator:
    return PageAllocator(size, page_size, torch.bfloat16, "cpu", pool, need_sort=True, strict=True)


def _window(pages: int) -> int:
    """Window pages beside so many full ones."""
    return max(1, pages // 2)


def _request(kind: DemoPoolKind, size: int, page_size: int, layers: int) -> PoolRequest:
    match kind:
        case "mha":
            return _heads(size, page_size, layers)
        case "mla":
            return MLALeafRequest(
                size=size,
                page_size=page_size,
                dtype=torch.bfloat16,
                kv_lora_rank=512,
                qk_rope_head_dim=64,
                layer_num=layers,
                device="cpu",
            )
        case "dsa":
            return DSALeafRequest(
                size=size,
                page_size=page_size,
                dtype=torch.bfloat16,
                kv_lora_rank=512,
                qk_rope_head_dim=64,
                index_head_dim=128,
                layer_num=layers,
                device="cpu",
            )
        case "swa":
            window = _window(size // page_size) * page_size
            return SWAPoolRequest(
                full=_heads(size, page_size, len(range(0, layers, 2))),
                window=_heads(window, page_size, len(range(1, layers, 2))),
                full_attention_layer_ids=tuple(range(0, layers, 2)),
                swa_attention_layer_ids=tuple(range(1, layers, 2)),
            )
        case "hybrid":
            return HybridPoolRequest(
                full=_heads(size, page_size, len(range(0, layers, 2))),
                state=_state(tuple(range(1, layers, 2))),
                full_attention_layer_ids=tuple(range(0, layers, 2)),
            )


def _heads(size: int, page_size: int, layers: int) -> MHALeafRequest:
    """The heads of an 8B Llama: a page of 64 tokens is 128 KiB of keys in a layer."""
    return MHALeafRequest(
        size=size,
        page_size=page_size,
        dtype=torch.bfloat16,
        head_num=8,
        head_dim=128,
        layer_num=layers,
        device="cpu",
    )


def _state(layer_ids: tuple[int, ...]) -> StatePoolRequest:
    return StatePoolRequest(
        size=_STATE_SLOTS,
        mamba_layer_ids=layer_ids,
        conv_state_shape=((1024, 3),),
        temporal_state_shape=(8, 64, 64),
        conv_dtype=torch.bfloat16,
        ssm_dtype=torch.float32,
        device="cpu",
    )
