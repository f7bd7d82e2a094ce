"""Hierarchical sparse attention: ids for more tokens than the device has rows for."""

from __future__ import annotations

from .options import ServingOptions
from .plan_error import PlanError
from .shape import ModelShape

__all__ = ["ids_per_row", "refuse_subsets"]


def ids_per_row(options: ServingOptions) -> int:
    """Ids that are lent to each row of the device; 1 where every token is on it."""
    return options.host_to_device_ratio or 1


def refuse_subsets(shape: ModelShape, options: ServingOptions) -> None:
    """Nothing, or why this model's tokens cannot be on the device in part.

    :raises PlanError: naming what reads rows that are not there, and what to change.
    """
    ratio = options.host_to_device_ratio
    if ratio is None:
        return
    why, change = _reason(shape, options)
    if why:
        raise PlanError("host_to_device_ratio", ratio, why, change)


def _reason(shape: ModelShape, options: ServingOptions) -> tuple[str, str]:
    if not shape.ids("indexed"):
        return "layers without index keys read every row of a request", "leave it out"
    if shape.state_layer_ids:
        return "the rows are beside recurrent state, whose slots have no place on the host", _OUT
    if shape.window_attention is not None and options.window_pools:
        return "the rows are beside windows, whose slots are mapped already", _OUT
    if options.prefix_cache:
        return "a prefix cache lends rows that may not be on the device", "give prefix_cache=False"
    speculative = options.speculative
    if speculative is not None and speculative.topk > 1:
        branches = f"drafts branch {speculative.topk} ways, and rows are fetched for one"
        return branches, "give topk=1"
    return "", ""


_OUT = "leave it out"
