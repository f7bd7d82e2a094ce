"""Options that were given and decide nothing, for a line under the plan."""

from __future__ import annotations

import argparse

from .geometry import LatentGeometry
from .shape import ModelShape

__all__ = ["idle_options"]

_WINDOW = {"window_ratio": 0.8, "window_storage": "paged", "no_window_pools": False}
_STATE = {"state_ratio": 0.9, "state_slots": None, "state_dtype": "float32"}
_LATENT = {"latent_layout": None}
_DSA = {"dsa_rows": None}
_INDEX = {"index_rows": "model"}


def idle_options(shape: ModelShape, arguments: argparse.Namespace) -> list[str]:
    """A line for each option that is not at its default, and of layers that the model has not."""
    index = None if shape.index is None else shape.index.scheme
    kinds = (
        (_WINDOW, shape.window is None, "no layer of this model has a window"),
        (_STATE, not shape.state_layer_ids, "no layer of this model keeps recurrent state"),
        (_LATENT, not _has_latents(shape), "no layer of this model has latent rows"),
        (_DSA, index != "latent", "no layer of this model has index keys beside latent rows"),
        (_INDEX, index != "rows", "no layer of this model has index rows beside rows of heads"),
    )
    return [
        f"--{name.replace('_', '-')}: {why}"
        for defaults, lacking, why in kinds
        for name, default in defaults.items()
        if lacking and getattr(arguments, name) != default
    ]


def _has_latents(shape: ModelShape) -> bool:
    rows = (shape.attention, shape.window_attention)
    return any(isinstance(geometry, LatentGeometry) for geometry in rows)
