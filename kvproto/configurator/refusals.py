"""Combinations that nothing here can serve, refused before anything is sized."""

from __future__ import annotations

from kvproto.protocols import SCALE_BLOCKS, PlatformCapabilities

from .geometry import AttentionGeometry, HeadGeometry, LatentGeometry
from .no_rows import refuse_readers_of_rows
from .options import ServingOptions
from .parallel import ParallelLayout
from .plan_error import PlanError
from .shape import ModelShape

__all__ = ["refuse"]


def refuse(
    shape: ModelShape,
    options: ServingOptions,
    parallel: ParallelLayout,
    platform: PlatformCapabilities,
) -> None:
    """Nothing, or what cannot be.

    :raises PlanError: naming the option, its value, why, and what to change.
    """
    if shape.compressed is not None and "compressed_pool" not in platform.subsystems:
        raise PlanError(
            "model_type",
            shape.model_type,
            f"its rows stand for several tokens, and the platform '{platform.device_type}' offers "
            "no compressed_pool",
            "use a platform that does",
        )
    if _pools_index_rows(shape) and "qsa_pool" not in platform.subsystems:
        raise PlanError(
            "model_type",
            shape.model_type,
            f"its index keys stand for several tokens, and the platform '{platform.device_type}' "
            "offers no qsa_pool",
            "use a platform that does",
        )
    refuse_readers_of_rows(shape, options, parallel)
    for geometry in (shape.attention, shape.window_attention):
        if geometry is not None:
            _refuse_parts_of_blocks(geometry, options)
    if parallel.dcp_size > 1 and shape.index is not None:
        raise PlanError(
            "dcp_size",
            parallel.dcp_size,
            "index keys are kept for every token on every rank, which no leaf request can say yet",
            "give 1",
        )
    if parallel.dcp_size > 1 and shape.window is not None and options.window_pools:
        raise PlanError(
            "dcp_size",
            parallel.dcp_size,
            "allocators of window pairs number the tokens of one rank",
            "give 1, or window_pools=False",
        )


def _refuse_parts_of_blocks(geometry: AttentionGeometry, options: ServingOptions) -> None:
    scheme = options.kv_cache_dtype
    if scheme not in SCALE_BLOCKS:
        return
    block = SCALE_BLOCKS[scheme]
    for name, width in _widths(geometry).items():
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


def _pools_index_rows(shape: ModelShape) -> bool:
    return shape.index is not None and shape.index.scheme == "pooled_rows"
