"""Combinations that nothing here can serve, refused before anything is sized."""

from __future__ import annotations

from kvproto.protocols import SCALE_BLOCKS, PlatformCapabilities, Subsystem

from .device_subset import refuse_subsets
from .geometry import AttentionGeometry, HeadGeometry, LatentGeometry
from .no_rows import refuse_readers_of_rows
from .options import ServingOptions
from .page_shards import refuse_page_shards
from .parallel import ParallelLayout
from .plan_error import PlanError
from .shape import ModelShape
from .unified_refusals import refuse_unified

__all__ = ["refuse", "refuse_parts_of_blocks"]


def refuse(
    shape: ModelShape,
    options: ServingOptions,
    parallel: ParallelLayout,
    platform: PlatformCapabilities,
) -> None:
    """Nothing, or what cannot be.

    :raises PlanError: naming the option, its value, why, and what to change.
    """
    for subsystem, why in _needed(shape):
        if subsystem not in platform.subsystems:
            raise PlanError(
                "model_type",
                shape.model_type,
                f"{why}, and the platform '{platform.device_type}' offers no {subsystem}",
                "use a platform that does",
            )
    refuse_readers_of_rows(shape, options, parallel)
    refuse_subsets(shape, options)
    refuse_page_shards(shape, options, parallel, platform)
    refuse_unified(shape, options, parallel, platform)
    refuse_parts_of_blocks(shape, options)
    _refuse_split_keys(shape, options, parallel)
    if shape.compressed is not None:
        return  # `compressed_plan` refuses what such a pool has no answer to
    if parallel.dcp_size > 1 and shape.window is not None and options.window_pools:
        raise PlanError(
            "dcp_size",
            parallel.dcp_size,
            "allocators of window pairs number the tokens of one rank",
            "give 1, or window_pools=False",
        )


def _refuse_split_keys(
    shape: ModelShape, options: ServingOptions, parallel: ParallelLayout
) -> None:
    index = shape.index
    if parallel.dcp_size == 1 or index is None:
        return
    why = None
    if index.scheme != "latent":
        why = "index rows lie at the slots of their rows, of which a rank has its own tokens' alone"
    elif index.kpool > 1:
        why = f"the {index.kpool} tokens of an index key are several ranks'"
    elif options.host_to_device_ratio is not None:
        why = "ids that ranks number together have no rows on a host"
    if why is not None:
        raise PlanError("dcp_size", parallel.dcp_size, why, "give 1")


def refuse_parts_of_blocks(shape: ModelShape, options: ServingOptions) -> None:
    """Nothing, or a scheme whose blocks the rows are no multiple of.

    :raises PlanError: naming the width.
    """
    scheme = options.kv_cache_dtype
    if scheme not in SCALE_BLOCKS:
        return
    block = SCALE_BLOCKS[scheme]
    rows = (shape.attention, shape.window_attention)
    widths = [each for geometry in rows if geometry for each in _widths(geometry).items()]
    for name, width in widths:
        if width % block:
            raise PlanError(
                "kv_cache_dtype",
                scheme,
                f"{block} elements of a row share a scale, and {name} is {width}",
                "store rows in another type",
            )


def _widths(geometry: AttentionGeometry) -> dict[str, int]:
    match geometry:
        case HeadGeometry():
            return {"head_dim": geometry.head_dim, "v_head_dim": geometry.v_head_dim}
        case LatentGeometry():
            return {
                "kv_lora_rank": geometry.kv_lora_rank,
                "qk_rope_head_dim": geometry.qk_rope_head_dim,
            }


def _needed(shape: ModelShape) -> list[tuple[Subsystem, str]]:
    """What a platform must offer beside leaves, and why."""
    needed: list[tuple[Subsystem, str]] = []
    if shape.compressed is not None:
        needed.append(("compressed_pool", "its rows stand for several tokens"))
    if shape.index is not None and shape.index.scheme == "pooled_rows":
        needed.append(("qsa_pool", "its index keys stand for several tokens"))
    if shape.embedding_ids:
        kept = "convolved inputs of its layers' own embeddings are kept with each slot of state"
        needed.append(("ple_state", kept))
    return needed
