"""Models whose rows stand for several tokens: the plan of a pool that its builder sizes."""

from __future__ import annotations

from fractions import Fraction

from kvproto.protocols import (
    CompressedPoolRequest,
    PlatformCapabilities,
    RequestPoolRequest,
    SWAAllocatorRequest,
)

from .assemble import allocator_request, request_pool_request
from .budget import MemoryBudget
from .concurrency import concurrency
from .context import context_len
from .elements import planned_dtype, stored_as
from .ledger import Share
from .options import ServingOptions
from .parallel import ParallelLayout
from .plan_error import PlanError
from .pool_plan import PoolPlan
from .shape import ModelShape
from .token_budget import Tokens, aligned, with_ratio
from .window_demand import window_demand

__all__ = ["compressed_plan"]


def compressed_plan(
    shape: ModelShape,
    options: ServingOptions,
    parallel: ParallelLayout,
    budget: MemoryBudget,
    platform: PlatformCapabilities,
    pp_rank: int,
) -> PoolPlan:
    """All bytes for one pool, for as many tokens as are stated.

    A row's packing and the tokens that wait to become one are the builder's own, so that nobody
    else can say what a token takes.

    :raises PlanError: for options that such a pool has no answer to, and where nobody says how many
        tokens there are to be.
    """
    _refuse(shape, options, parallel)
    layers = parallel.stage(pp_rank, len(shape.layers))
    tokens = _tokens(shape, options, parallel)
    context = context_len(shape, options)
    running = concurrency(options, parallel, tokens.capacity, context, None, budget.cache_bytes)
    table = request_pool_request(running, options, context, None, layers.start)
    allocator = allocator_request(tokens, table, None, options, parallel)
    assert isinstance(allocator, SWAAllocatorRequest)
    assert isinstance(table, RequestPoolRequest)
    request = _request(shape, layers, tokens, options, budget, platform, allocator, table)
    return PoolPlan(
        model_type=shape.model_type,
        layers=(layers.start, layers.stop),
        context_len=context_len(shape, options),
        cache_bytes=budget.cache_bytes,
        bytes_per_token=0,
        tokens=tokens,
        pool=None,
        state=None,
        draft=None,
        draft_windows="none",
        allocator=allocator,
        request_pool=table,
        subsystem=request,
        concurrency=running,
        shares=(
            Share(part="compressed", bytes=budget.cache_bytes),
            Share(part="unused", bytes=0),
        ),
    )


def _request(
    shape: ModelShape,
    layers: range,
    tokens: Tokens,
    options: ServingOptions,
    budget: MemoryBudget,
    platform: PlatformCapabilities,
    allocator: SWAAllocatorRequest,
    table: RequestPoolRequest,
) -> CompressedPoolRequest:
    geometry, window = shape.compressed, shape.window
    assert geometry is not None
    assert window is not None
    name, scheme = stored_as(options.kv_cache_dtype, options.model_dtype, platform.fp8_variant)
    return CompressedPoolRequest(
        total_bytes=budget.cache_bytes,
        size=tokens.full,
        size_swa=tokens.window,
        page_size=options.page,
        sliding_window=window,
        compression_ratios=geometry.ratios[layers.start : layers.stop],
        head_dim=geometry.head_dim,
        qk_rope_head_dim=geometry.qk_rope_head_dim,
        index_head_dim=geometry.index_head_dim,
        dtype=planned_dtype(name),
        quant_scheme=scheme,
        allocator=allocator,
        request_pool=table,
        device=options.device,
        start_layer=layers.start,
        enable_memory_saver=options.enable_memory_saver,
    )


def _tokens(shape: ModelShape, options: ServingOptions, parallel: ParallelLayout) -> Tokens:
    page, stated = options.page, options.max_total_tokens
    if stated is None or stated < page:
        raise PlanError(
            "max_total_tokens",
            stated,
            f"what a token of '{shape.model_type}' takes is its builder's to know",
            f"state how many there are to be, at least one page of {page}",
        )
    full = aligned(stated, page)
    demand = None if shape.window is None else window_demand(options, parallel, shape.window)
    if demand is not None:
        return Tokens(full, min(demand, full))
    found = with_ratio(full, Fraction(str(options.swa_full_tokens_ratio)), page)
    return Tokens(full, max(found.window, page))


def _refuse(shape: ModelShape, options: ServingOptions, parallel: ParallelLayout) -> None:
    geometry = shape.compressed
    assert geometry is not None
    split = [ratio for ratio in geometry.ratios if ratio and options.page % ratio]
    if split:
        raise PlanError(
            "page_size",
            options.page,
            f"{max(split)} tokens share a row, which must not cross a page",
            f"give a multiple of {max(split)}",
        )
    speculative = options.speculative
    if speculative is not None and speculative.kind != "ngram":
        raise PlanError(
            "speculative",
            speculative.kind,
            f"the windows of a draft of '{shape.model_type}' lie in its builder's pool, which no "
            "request asks for",
            "leave it out",
        )
    if parallel.dcp_size > 1:
        why = "a row of several tokens is several ranks'"
        raise PlanError("dcp_size", parallel.dcp_size, why, "give 1")
    if options.window_storage == "ring" or not options.window_pools:
        given = "window_pools" if not options.window_pools else "window_storage"
        why = "every layer keeps its window in pages beside compressed rows"
        raise PlanError(given, getattr(options, given), why, "leave it out")
