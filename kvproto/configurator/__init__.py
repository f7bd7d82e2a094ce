"""From a model's `config.json` to what its caches must hold, without a tensor or a device."""

from __future__ import annotations

from .examples import example_config, example_names
from .fields import ShapeError
from .geometry import (
    AttentionGeometry,
    CompressedGeometry,
    HeadGeometry,
    IndexGeometry,
    LatentGeometry,
    Mixer,
    StateGeometry,
)
from .layer_kinds import LayerKind
from .shape import ModelShape

__all__ = [
    "AttentionGeometry",
    "CompressedGeometry",
    "HeadGeometry",
    "IndexGeometry",
    "LatentGeometry",
    "LayerKind",
    "Mixer",
    "ModelShape",
    "ShapeError",
    "StateGeometry",
    "example_config",
    "example_names",
]
