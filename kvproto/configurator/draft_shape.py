"""Which layers a draft has: those of its own config, or further ones of the model."""

from __future__ import annotations

from dataclasses import replace

from .layer_kinds import LayerKind
from .options import ServingOptions, SpeculativeOptions
from .plan_error import PlanError
from .shape import ModelShape

__all__ = ["draft_layers_of", "outlives"]


def draft_layers_of(
    shape: ModelShape, draft: ModelShape | None, speculative: SpeculativeOptions
) -> ModelShape | None:
    """The draft's layers as a model of their own; None where the model's attend to nothing.

    A config that counts layers for prediction (`num_nextn_predict_layers`) is a whole model's,
    and its draft has so many of its attending layers; any other config has the draft's layers.

    :raises PlanError: where nobody says how many layers there are, and for layers that recur or
        whose rows stand for several tokens.
    """
    count = speculative.draft_layers
    if draft is None:
        count = count or shape.draft_layers
        if not count:
            raise PlanError(
                "draft_layers",
                speculative.draft_layers,
                f"the config of '{shape.model_type}' states none",
                "give the layers of the draft's own cache, or its config",
            )
        return _predicting(shape, count)
    if draft.draft_layers and draft.compressed is None:
        return _predicting(draft, count or draft.draft_layers)
    return _first(draft, count or len(draft.layers))


def outlives(draft: ModelShape, shape: ModelShape, options: ServingOptions) -> bool:
    """Whether rows of the draft's windows are read when the model's window slots may be gone."""
    split = options.window_pools and options.window_storage != "ring" and shape.window is not None
    windowed = shape.ids("sliding", "chunked")
    has_pair = split and bool(windowed) and len(windowed) < len(shape.attending)
    return not has_pair or (draft.window or 0) > (shape.window or 0)


def _predicting(shape: ModelShape, count: int) -> ModelShape | None:
    """So many layers for prediction; each has index keys of its own where layers have some."""
    attention = shape.attention if shape.ids("full", "indexed") else shape.window_attention
    if attention is None:
        return None
    latent = shape.index is not None and shape.index.scheme == "latent"
    plain: LayerKind = "indexed" if latent and shape.ids("indexed") else "full"
    windowed = shape.draft_window_ids
    return replace(
        shape,
        attention=attention,
        layers=tuple("sliding" if i in windowed else plain for i in range(count)),
        reused_choice_ids=(),
        state=None,
        state_layer_ids=(),
    )


def _first(draft: ModelShape, count: int) -> ModelShape:
    if count > len(draft.layers):
        raise PlanError(
            "draft_layers",
            count,
            f"the draft's config has {len(draft.layers)} layers",
            "give as many or fewer",
        )
    kept = replace(draft, layers=draft.layers[:count], reused_choice_ids=())
    if draft.compressed is not None or any(i < count for i in draft.state_layer_ids):
        keeps = "rows of several tokens" if draft.compressed is not None else "recurrent state"
        raise PlanError(
            "draft_shape",
            draft.model_type,
            f"its layers keep {keeps}, and a draft has slots of tokens alone",
            "use a draft whose layers attend to rows",
        )
    if not kept.attending:
        raise PlanError(
            "draft_layers",
            count,
            f"none of the first {count} layers of '{draft.model_type}' keeps rows",
            "give more",
        )
    return kept
