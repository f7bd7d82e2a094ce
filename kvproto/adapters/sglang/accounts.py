# pyright: basic, reportMissingImports=false
"""kvproto's allocators, request tables and recurrent states in place of sglang's.

Each function here answers a method of sglang's `KVCacheConfigurator` that builds one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .request_table import SGLangReqToToken
from .state import SGLangStatePool, SGLangStateReqToToken, SGLangStateSlots
from .token_allocator import SGLangTokenAllocator
from .window_allocator import SGLangSWAAllocator

__all__ = ["allocator_for", "request_table", "state_request_table"]


def allocator_for(theirs: Any) -> Any:
    """An allocator of `kvproto.reference` of the sizes and the pool of sglang's.

    Of single tokens, and of window pairs of any page size. Any other is returned as it is: over
    virtual ids, over a device's part of the slots, of windows alone, of a ring per request.
    """
    make = _OURS.get(f"{type(theirs).__module__}.{type(theirs).__qualname__}")
    return theirs if make is None else make(theirs)


def request_table(
    _build: Callable[..., Any],
    configurator: Any,
    *,
    max_num_reqs: int,
    extra_max_context_len: int,
) -> SGLangReqToToken:
    """In place of `_build_default_req_pool`."""
    return SGLangReqToToken(**_rows(configurator, max_num_reqs, extra_max_context_len))


def state_request_table(
    build: Callable[..., Any],
    configurator: Any,
    *,
    max_num_reqs: int,
    extra_max_context_len: int,
) -> Any:
    """In place of `_build_hybrid_req_pool`: rows, state slots and the states themselves.

    sglang's own where its state is more than tensors by slot (`_is_plain`).
    """
    if not _is_plain(configurator):
        return build(
            configurator, max_num_reqs=max_num_reqs, extra_max_context_len=extra_max_context_len
        )
    from sglang.srt.runtime_context import get_exec, get_schedule

    mamba, schedule = get_exec().mamba, get_schedule()
    rows = _rows(configurator, max_num_reqs, extra_max_context_len)
    slots, device = schedule.max_mamba_cache_size, configurator.device
    states = SGLangStatePool(
        size=slots,
        cache_params=configurator.mambaish_config.mamba2_cache_params,
        mamba_layer_ids=configurator._get_mamba_layer_ids_for_req_pool(),
        device=device,
        enable_memory_saver=rows["enable_memory_saver"],
    )
    return SGLangStateReqToToken(
        **rows,
        mamba_pool=states,
        mamba_allocator=SGLangStateSlots(slots, device),
        enable_mamba_extra_buffer=mamba.enable_mamba_extra_buffer,
        enable_mamba_extra_buffer_lazy=mamba.enable_mamba_extra_buffer_lazy,
        enable_overlap_schedule=not schedule.disable_overlap_schedule,
        start_layer=configurator.layer_info.start_layer,
    )


def _rows(configurator: Any, max_num_reqs: int, extra_max_context_len: int) -> dict[str, Any]:
    from sglang.srt.runtime_context import get_exec

    return {
        "size": max_num_reqs,
        "max_context_len": configurator.model_config.context_len + extra_max_context_len,
        "device": configurator.device,
        "enable_memory_saver": get_exec().features.enable_memory_saver,
    }


def _is_plain(configurator: Any) -> bool:
    """Is the state tensors of a slot each, in the order of their axes, and nothing beside them?

    Not with drafts: sglang's models ask for its own class of state when they verify. Not with a
    replay of steps, with states of n-grams, with snapshots in eight bits, with states of all
    layers in one buffer by slot, and not on a CPU with AMX, whose kernels want another order.
    """
    from sglang.srt.mem_cache import memory_pool
    from sglang.srt.runtime_context import get_exec, get_memory, get_spec

    mamba = get_exec().mamba
    return not (
        get_spec().speculative_algorithm
        or mamba.enable_linear_replayssm
        or mamba.enable_linear_replayssm_spec
        or mamba.enable_int8_mamba_checkpoint
        or get_memory().enable_page_major_kv_layout
        or configurator._get_ple_req_pool_kwargs()
        or (memory_pool._is_cpu and memory_pool._cpu_has_amx_support)
    )


def _tokens(theirs: Any) -> SGLangTokenAllocator:
    return SGLangTokenAllocator(
        theirs.size, theirs.dtype, theirs.device, theirs.get_kvcache(), theirs.need_sort
    )


def _window_pair(theirs: Any) -> Any:
    if theirs.swa_req_ring:
        return theirs
    return SGLangSWAAllocator(
        full_attn_allocator=allocator_for(theirs.full_attn_allocator),
        swa_attn_allocator=allocator_for(theirs.swa_attn_allocator),
        kvcache=theirs.get_kvcache(),
    )


_ALLOCATORS = "sglang.srt.mem_cache.allocator"
_OURS: dict[str, Callable[[Any], Any]] = {
    f"{_ALLOCATORS}.token.TokenToKVPoolAllocator": _tokens,
    f"{_ALLOCATORS}.swa.SWATokenToKVPoolAllocator": _window_pair,
}
