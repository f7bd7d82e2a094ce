"""Plans without rows: prompts that are attended to at hand, and nothing kept of them."""

from __future__ import annotations

from kvproto.protocols import BLOCK_SCALED, LeafRequest, MHALeafRequest, NoOpLeafRequest

from .options import ServingOptions
from .parallel import ParallelLayout
from .plan_error import PlanError
from .shape import ModelShape

__all__ = ["refuse_readers_of_rows", "without_rows"]


def refuse_readers_of_rows(
    shape: ModelShape, options: ServingOptions, parallel: ParallelLayout
) -> None:
    """Nothing where `rows` are kept, or where nobody would read them.

    :raises PlanError: naming who reads them, and what to change.
    """
    if options.rows == "kept":
        return
    family = _family(shape, options)
    if family is not None:
        raise PlanError(
            "rows",
            options.rows,
            f"a model with {family} reads them: only multi-head rows can be left out",
            "give 'kept'",
        )
    for name, value, reader, change in _readers(options, parallel):
        raise PlanError("rows", options.rows, f"{name}={value!r}: {reader}", change)


def without_rows(leaf: LeafRequest) -> NoOpLeafRequest:
    """What stands for a leaf of multi-head rows whose rows nobody keeps."""
    assert isinstance(leaf, MHALeafRequest), "refuse_readers_of_rows lets no other leaf through"
    return NoOpLeafRequest(
        size=leaf.size,
        page_size=leaf.page_size,
        dtype=leaf.dtype,
        layer_num=leaf.layer_num,
        device=leaf.device,
        start_layer=leaf.start_layer,
        enable_memory_saver=leaf.enable_memory_saver,
        quant_scheme=leaf.quant_scheme,
        head_num=leaf.head_num,
        head_dim=leaf.head_dim,
        v_head_dim=leaf.v_head_dim,
    )


def _family(shape: ModelShape, options: ServingOptions) -> str | None:
    """What the model keeps beside multi-head rows of the whole context; None for nothing."""
    windowed = shape.window_attention is not None and options.window_pools
    if shape.compressed is not None:
        return "compressed rows"
    if shape.is_latent:
        beside = " beside windows" if windowed else ""
        return (
            f"latent rows{beside}" if shape.index is None else f"latent rows and index keys{beside}"
        )
    if shape.index is not None:
        return "index keys"
    if windowed:
        return "windows"
    if shape.state_layer_ids:
        return "recurrent state"
    return "block scales" if options.kv_cache_dtype in BLOCK_SCALED else None


def _readers(
    options: ServingOptions, parallel: ParallelLayout
) -> list[tuple[str, object, str, str]]:
    """Options under which rows are read after their forward pass: name, value, why, the cure."""
    found: list[tuple[str, object, str, str]] = []
    if options.role == "decode":
        found.append(("role", options.role, "each step reads them all", "give another role"))
    if options.speculative is not None:
        found.append(("speculative", options.speculative, "drafts read them", "leave it out"))
    if options.prefix_cache:
        lent = "it lends the rows of finished prompts"
        found.append(("prefix_cache", True, lent, "give prefix_cache=False"))
    chunk = options.chunked_prefill_size
    if chunk:
        later = "a chunk reads the rows of those before"
        found.append(("chunked_prefill_size", chunk, later, "give chunked_prefill_size=None"))
    if parallel.dcp_size > 1:
        found.append(("dcp_size", parallel.dcp_size, "ranks read each other's", "give dcp_size=1"))
    return found
