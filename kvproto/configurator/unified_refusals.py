"""What one byte buffer for every pool, and rows of drafts in it, cannot be asked for."""

from __future__ import annotations

from kvproto.protocols import PlatformCapabilities

from .options import ServingOptions
from .parallel import ParallelLayout
from .plan_error import PlanError
from .shape import ModelShape
from .stage import Stage

__all__ = ["refuse_unified"]


def refuse_unified(
    shape: ModelShape,
    options: ServingOptions,
    parallel: ParallelLayout,
    platform: PlatformCapabilities,
) -> None:
    """Nothing, or what cannot be.

    :raises PlanError: naming the option, and the subsystem where a platform lacks it.
    """
    if options.pool_memory == "unified":
        _refuse_buffer(shape, options, parallel, platform)
    _refuse_fused(options, parallel, platform)


def _refuse_buffer(
    shape: ModelShape,
    options: ServingOptions,
    parallel: ParallelLayout,
    platform: PlatformCapabilities,
) -> None:
    missing = "unified_buffer" not in platform.subsystems
    windowed = bool(options.window_pools and shape.ids("sliding", "chunked"))
    alone = _stages_of_one_kind(shape, options, parallel)
    why = None
    if missing:
        why = f"the platform '{platform.device_type}' offers no unified_buffer"
    elif alone:
        why = (
            f"layers {alone[0].start} to {alone[0].stop - 1} of '{shape.model_type}' keep slots of "
        )
        why += "one kind, which have nothing to share with"
    elif shape.index is not None and shape.index.scheme == "pooled_rows":
        why = "an index key of several tokens lies in the slot of none"
    elif options.window_storage == "ring" and windowed:
        why = "window_storage='ring' lends no window slots that could grow"
    elif shape.is_latent and windowed:
        why = "its window slots hold rows by head, and those of this model are latent"
    elif parallel.dcp_size > 1 and not shape.is_latent:
        why = f"dcp_size={parallel.dcp_size}: ranks split tokens of latent rows alone there"
    if why is not None:
        change = "give 'split', or use a platform that does" if missing else "give 'split'"
        raise PlanError("pool_memory", options.pool_memory, why, change)


def _stages_of_one_kind(
    shape: ModelShape, options: ServingOptions, parallel: ParallelLayout
) -> list[range]:
    layer_num, per_layer = len(shape.layers), shape.rows_per_layer
    layers = (parallel.stage(rank, layer_num, per_layer) for rank in range(parallel.pp_size))
    stages = (Stage.of(shape, each, options) for each in layers)
    return [s.layers for s in stages if not s.full or not (s.window or s.state)]


def _refuse_fused(
    options: ServingOptions, parallel: ParallelLayout, platform: PlatformCapabilities
) -> None:
    speculative = options.speculative
    if speculative is None or speculative.kind == "ngram":
        return
    unified = options.pool_memory == "unified"
    if speculative.draft_rows == "own":
        if not unified:
            return
        why = "the ids of a unified buffer run past the tokens that are planned, and a draft of its"
        why, change = f"{why} own would have to span them all", "give 'fused'"
    elif "fused_draft" not in platform.subsystems:
        why = f"the platform '{platform.device_type}' offers no fused_draft"
        change = "give 'own', or use a platform that does"
    elif not unified:
        why = "they lie in the pages of a unified buffer"
        change = "give 'own', or pool_memory='unified'"
    elif parallel.dcp_size > 1:
        why = f"a page has a rank's part of the tokens (dcp_size={parallel.dcp_size}), a draft all"
        change = "give 'own', or dcp_size=1"
    else:
        return
    raise PlanError("draft_rows", speculative.draft_rows, why, change)
