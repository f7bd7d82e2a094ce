"""Pages dealt out over ranks that would each keep all of them."""

from __future__ import annotations

from kvproto.protocols import BLOCK_SCALED, PageShards, PlatformCapabilities

from .options import ServingOptions
from .parallel import ParallelLayout
from .plan_error import PlanError
from .shape import ModelShape

__all__ = ["page_shards", "ranks_of_pages", "refuse_page_shards"]

_PREFIXES_GATHERED = 8
"""Longest contexts that a batch may continue: sglang 0.5.23 has scratch for as many."""


def page_shards(
    shape: ModelShape, options: ServingOptions, parallel: ParallelLayout
) -> PageShards | None:
    """The ranks that share a layer's pages, and rows to gather a batch's prefixes and chunk into.

    None where each rank keeps every page. Of scratch there is one page more than a batch needs,
    for what is written nowhere.
    """
    if options.kv_sharding == "none":
        return None
    page, ranks = options.page, parallel.attention_ranks
    context = options.context_len or shape.context_len or 0
    prefixes = _PREFIXES_GATHERED * _whole(context, ranks * page)
    rows = prefixes + _whole(options.chunked_prefill_size or 0, page) + page
    return PageShards(shard_size=ranks, scratch_rows=rows)


def ranks_of_pages(options: ServingOptions, parallel: ParallelLayout) -> int:
    """Ranks whose pages are numbered together; 1 where each has all of them."""
    return parallel.attention_ranks if options.kv_sharding == "pages" else 1


def refuse_page_shards(
    shape: ModelShape,
    options: ServingOptions,
    parallel: ParallelLayout,
    platform: PlatformCapabilities,
) -> None:
    """Nothing, or why pages cannot be dealt out.

    :raises PlanError: naming the subsystem where the platform lacks it.
    """
    if options.kv_sharding == "none":
        return
    missing = "page_shards" not in platform.subsystems
    change = "give 'none'"
    if missing:
        why = f"the platform '{platform.device_type}' offers no page_shards"
        change = "give 'none', or use a platform that does"
    else:
        why = _model(shape, options) or _ranks(parallel) or _service(options)
    if why:
        raise PlanError("kv_sharding", options.kv_sharding, why, change)


def _model(shape: ModelShape, options: ServingOptions) -> str:
    if not shape.is_latent:
        return "ranks split heads, so that no two of them keep the same rows"
    if shape.window_attention is not None and options.window_pools:
        return "window slots are numbered by each rank alone"
    if shape.state_layer_ids:
        return "recurrent state is no page of tokens"
    if shape.index is not None and shape.index.kpool > 1:
        return f"an index key of {shape.index.kpool} tokens has no scratch to be gathered into"
    if options.kv_cache_dtype in BLOCK_SCALED:
        return f"kv_cache_dtype={options.kv_cache_dtype!r}: block scales are not gathered"
    return ""


def _ranks(parallel: ParallelLayout) -> str:
    if parallel.dp_attention_size > 1:
        return f"dp_attention_size={parallel.dp_attention_size}: groups keep rows of their own"
    if parallel.dcp_size > 1:
        return f"dcp_size={parallel.dcp_size}: ranks split the tokens of a page already"
    return "there is one rank, which keeps every page" if parallel.attention_ranks < 2 else ""


def _service(options: ServingOptions) -> str:
    if options.role != "prefill":
        return f"role={options.role!r}: an instance that decodes reads every row at each step"
    if options.page < 2:
        return "page_size=1: a page is what is sent and gathered"
    if not options.chunked_prefill_size:
        return "chunked_prefill_size=None: scratch is as long as a chunk"
    if options.host_to_device_ratio is not None:
        return "host_to_device_ratio: rows on the host are no rank's pages"
    if options.speculative is not None and options.speculative.kind != "ngram":
        return "speculative: a draft would have to be in the same ranks' pages"
    return ""


def _whole(tokens: int, span: int) -> int:
    return -(-tokens // span) * span
