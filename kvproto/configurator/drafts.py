"""The leaf of the layers that predict tokens ahead."""

from __future__ import annotations

from dataclasses import replace

from kvproto.protocols import DSALeafRequest, LeafRequest

from .leaves import LeafRequests
from .options import ServingOptions
from .plan_error import PlanError
from .shape import ModelShape

__all__ = ["draft_leaf"]


def draft_leaf(
    shape: ModelShape, options: ServingOptions, leaves: LeafRequests, *, last: bool
) -> LeafRequest | None:
    """Rows of the draft's layers, shaped as the model's attending ones; on the last stage only.

    The draft's layers count from 0 and each has index keys of its own, also where the
    model's layers share them.

    :raises PlanError: where nobody says how many layers the draft has.
    """
    speculative = options.speculative
    if speculative is None or speculative.kind == "ngram" or not last:
        return None
    layers = speculative.draft_layers or shape.draft_layers
    if not layers:
        raise PlanError(
            "draft_layers",
            speculative.draft_layers,
            f"the config of '{shape.model_type}' states none",
            "give the layers of the draft's own cache",
        )
    like = leaves.full or leaves.window
    if like is None:
        return None
    if isinstance(like, DSALeafRequest):
        return replace(like, layer_num=layers, start_layer=0, skip_topk_layers=())
    return replace(like, layer_num=layers, start_layer=0)
