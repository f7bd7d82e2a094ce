"""The pool of the layers that predict tokens ahead."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kvproto.protocols import (
    DSALeafRequest,
    LeafRequest,
    PlatformCapabilities,
    PoolRequest,
    SWAPoolRequest,
)

from .assemble import sized
from .draft_shape import draft_layers_of, outlives
from .leaves import leaf_requests
from .options import ServingOptions, SpeculativeOptions
from .parallel import ParallelLayout
from .plan_error import PlanError
from .pool_plan import DraftWindows
from .refusals import refuse_parts_of_blocks
from .shape import ModelShape
from .stage import Stage
from .token_budget import Tokens

__all__ = ["DraftRequests", "draft_requests"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftRequests:
    """What a draft needs built; its `size` is one page until tokens are counted.

    A draft is whole on each of the ranks that split a request's tokens, so its pages hold the
    tokens of all of them.
    """

    full: LeafRequest | None
    window: LeafRequest | None
    stage: Stage
    windows: DraftWindows

    def sized(self, tokens: Tokens, scale: int) -> PoolRequest:
        """With room for every location, of which there are `scale` to a token of a rank."""
        capacity = tokens.capacity * scale
        if self.window is None:
            assert self.full is not None, "draft_requests gives no draft without layers"
            return sized(self.full, capacity, self.full.page_size)
        page = self.window.page_size
        slots = tokens.window if self.windows == "shared" else capacity
        full = replace(self.window, layer_num=0) if self.full is None else self.full
        return SWAPoolRequest(
            full=sized(full, capacity, page),
            window=sized(self.window, slots, page),
            full_attention_layer_ids=self.stage.full,
            swa_attention_layer_ids=self.stage.window,
        )


def draft_requests(
    shape: ModelShape,
    draft: ModelShape | None,
    options: ServingOptions,
    parallel: ParallelLayout,
    platform: PlatformCapabilities,
    *,
    last: bool,
) -> DraftRequests | None:
    """The draft of this model, from its own config where it has one; on the last stage only.

    None where nothing is drafted, or nothing attends. Layers count from 0.

    :raises PlanError: for a draft that cannot be served beside the model.
    """
    speculative = options.speculative
    if speculative is None or speculative.kind == "ngram" or not last:
        return None
    layers = draft_layers_of(shape, draft, speculative)
    if layers is None:
        return None
    scale = parallel.dcp_size
    own = replace(
        options,
        page_size=options.page * scale,
        host_to_device_ratio=None,  # a draft has rows for every id
        kv_cache_dtype=speculative.draft_kv_cache_dtype or options.kv_cache_dtype,
    )
    stage = Stage.of(layers, range(len(layers.layers)), own)
    ranks = _ranks(speculative, parallel)
    try:
        refuse_parts_of_blocks(layers, own)
        made = leaf_requests(layers, stage, own, ranks, platform)
    except PlanError as error:
        raise _of_the_draft(error, ranks) from error
    shared = draft is not None and not outlives(layers, shape, options)
    windows: DraftWindows = "shared" if shared else "own"
    return DraftRequests(
        full=_of_all_ranks(made.full, scale),
        window=made.window,
        stage=stage,
        windows="none" if made.window is None else windows,
    )


def _of_all_ranks(leaf: LeafRequest | None, scale: int) -> LeafRequest | None:
    """With an index page for each of the ranks whose tokens are in a page of the draft."""
    if not isinstance(leaf, DSALeafRequest) or scale == 1:
        return leaf
    if leaf.index_kpool > 1:
        raise PlanError(
            "dcp_size", scale, "a draft's index keys stand for several tokens", "give 1"
        )
    return replace(leaf, dcp_size=scale, dcp_replicated=True)


def _of_the_draft(error: PlanError, ranks: ParallelLayout) -> PlanError:
    """The same of the draft's own option, of which there are ranks in one attention group."""
    match error.option:
        case "kv_cache_dtype":
            return PlanError("draft_kv_cache_dtype", error.value, error.why, error.change)
        case "tp_size":
            change = "give a divisor or a multiple of the draft's heads"
            return PlanError("draft_attn_tp_size", ranks.attention_ranks, error.why, change)
        case _:
            return error


def _ranks(speculative: SpeculativeOptions, parallel: ParallelLayout) -> ParallelLayout:
    """The ranks that split a draft's heads, in as many attention groups; none split its tokens."""
    ranks = speculative.draft_attn_tp_size or parallel.attention_ranks
    if parallel.tp_size % ranks:
        raise PlanError(
            "draft_attn_tp_size",
            ranks,
            f"{parallel.tp_size} tensor-parallel ranks cannot be split into groups of that many",
            "give a divisor of tp_size",
        )
    return replace(parallel, tp_size=ranks * parallel.dp_attention_size, dcp_size=1)
