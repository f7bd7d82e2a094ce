# pyright: basic, reportMissingImports=false
"""sglang's drafts that are fused into a target's shared buffer, and the sides of such a buffer.

Runs in `.interop-venv`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sglang.srt.mem_cache import memory_pool as base
from sglang.srt.mem_cache import unified_draft_pool as draft
from sglang.srt.mem_cache import unified_memory_pool as unified
from sglang.srt.mem_cache.allocator.unified_hybrid_swa import (
    UnifiedMambaSWATokenToKVPoolAllocator,
    UnifiedSWATokenToKVPoolAllocator,
)
from sglang.srt.mem_cache.allocator.unified_sub_pool import MultiEndedAllocator
from sglang.srt.mem_cache.layout.fused_draft import (
    DenseDraftRegion,
    DraftStateGeometry,
    DraftStateRegion,
    FusedDraftPlacement,
)

from tests.interop import pools

__all__ = ["MAKERS"]

ROWS = {"layer_num": 2, "head_num": 1, "head_dim": 64, "store_dtype": pools.BF16}


def part_of_rows() -> object:
    return _rows("full", "up")


def part_of_latents() -> object:
    latent = {"layer_num": 2, "kv_lora_rank": 64, "qk_rope_head_dim": 16, "store_dtype": pools.BF16}
    return unified.MLASubPoolSpec(name="mla", grow_direction="down", **latent)


def part_of_states() -> object:
    return _states("down")


def draft_rows() -> object:
    buffer, host = _two_fused_sides()
    return draft.UnifiedDraftKVPool(
        unified_buffer=buffer,
        host_sub_pool_name="full",
        host_allocator=host,
        layer_lanes={0: 0, 1: 1},
    )


def draft_pair() -> object:
    buffer, host = _two_fused_sides()
    return draft.UnifiedDraftSWAKVPool(
        unified_buffer=buffer,
        host_allocator=host,
        page_size=1,
        full_layer_lanes={0: 0},
        swa_layer_lanes={1: 1},
    )


def draft_states() -> object:
    shapes = _state_shapes()
    region = DraftStateRegion(lane_num=1, state=DraftStateGeometry(**shapes))
    placed = FusedDraftPlacement.from_counts(counts={"mamba": [1]}, regions={"mamba": region})
    buffer = _buffer(_rows("full", "up"), _states("down", placed), fused_draft=placed)
    return draft.UnifiedDraftMambaPool(
        unified_buffer=buffer, sub_pool_name="mamba", layer_lanes={0: 0}
    )


def states_in_shared_buffer() -> object:
    return _states_of(_buffer(_rows("full", "up"), _states("down")))


def requests_with_shared_states() -> object:
    table, buffer = requests_before_their_allocator()
    side = MultiEndedAllocator(
        kvcache=table.mamba_pool,
        unified_buffer=buffer,
        sub_pool_name="mamba",
        device="cpu",
        is_id_owner=True,
    )
    table.mamba_allocator = unified.UnifiedMambaSlotAllocator(side, max_size=4, device="cpu")
    return table


def requests_before_their_allocator() -> tuple[Any, object]:
    buffer = _buffer(_rows("full", "up"), _states("down"))
    return unified.UnifiedHybridReqToTokenPool(
        unified_buffer=buffer,
        mamba_sub_pool_name="mamba",
        size=2,
        mamba_spec_state_size=0,
        max_context_len=8,
        cache_params=pools._state_params(),
        mamba_layer_ids=[0, 2],
        enable_mamba_extra_buffer=False,
        enable_mamba_extra_buffer_lazy=False,
        **pools.ON_CPU,
    ), buffer


def allocator_of_three_sides() -> Any:
    buffer = _buffer(_states("up"), _rows("swa", "float"), _rows("full", "down"))
    return UnifiedMambaSWATokenToKVPoolAllocator(
        unified_buffer=buffer,
        kvcache=unified.UnifiedSWAKVPool(unified_buffer=buffer, **pools.EVEN_WINDOWED),
        mamba_kvcache=_states_of(buffer),
        device="cpu",
        full_max_total_num_tokens=64,
        swa_max_total_num_tokens=64,
    )


def floating_side() -> object:
    return allocator_of_three_sides().swa_attn_allocator


def _two_fused_sides() -> tuple[object, object]:
    region = DenseDraftRegion(lane_num=2, head_num=1, head_dim=64, store_dtype=pools.BF16)
    placed = FusedDraftPlacement.from_counts(
        counts={"full": [2], "swa": [2]}, regions={"full": region, "swa": region}
    )
    sides = [_rows("full", "up", placed), _rows("swa", "down", placed)]
    buffer = _buffer(*sides, fused_draft=placed)
    pool = unified.UnifiedSWAKVPool(unified_buffer=buffer, **pools.EVEN_WINDOWED)
    return buffer, UnifiedSWATokenToKVPoolAllocator(
        unified_buffer=buffer, kvcache=pool, device="cpu"
    )


def _buffer(*sides: object, **options: object) -> Any:
    return unified.UnifiedKVPool(
        total_bytes=1 << 20, sub_pool_specs=list(sides), **pools.ON_CPU, **options
    )


def _rows(name: str, grows: str, placed: FusedDraftPlacement | None = None) -> object:
    region = placed.region(name) if placed else None
    return unified.MHASubPoolSpec(name=name, grow_direction=grows, draft_region=region, **ROWS)


def _states(grows: str, placed: FusedDraftPlacement | None = None) -> object:
    region = placed.region("mamba") if placed else None
    return unified.MambaSubPoolSpec(
        name="mamba", grow_direction=grows, layer_num=2, draft_region=region, **_state_shapes()
    )


def _state_shapes() -> dict[str, Any]:
    params: Any = pools._state_params()
    return {
        "conv_state_shapes": tuple(params.shape.conv),
        "conv_dtype": params.dtype.conv,
        "temporal_state_shape": params.shape.temporal,
        "temporal_dtype": params.dtype.temporal,
    }


def _states_of(buffer: object) -> base.MambaPool:
    return unified.UnifiedMambaPool(
        unified_buffer=buffer, sub_pool_name="mamba", spec_state_size=0, mamba_layer_ids=[0, 2]
    )


MAKERS: tuple[Callable[[], object], ...] = (
    part_of_rows,
    part_of_latents,
    part_of_states,
    draft_rows,
    draft_pair,
    draft_states,
    states_in_shared_buffer,
    requests_with_shared_states,
    allocator_of_three_sides,
    floating_side,
)
