"""What ten models keep for a token on one rank: the shapes that kernels are compiled for."""

from __future__ import annotations

from typing import NamedTuple

from kvproto.configurator.examples import example_config
from kvproto.configurator.geometry import HeadGeometry, IndexGeometry, LatentGeometry, StateGeometry
from kvproto.configurator.shape import ModelShape

__all__ = [
    "MODELS",
    "SPARSE",
    "Heads",
    "heads_of",
    "index_of",
    "latent_of",
    "layers_of",
    "state_of",
]

MODELS = {
    "llama": 1,
    "mistral": 2,
    "qwen3_moe": 2,
    "gpt_oss": 4,
    "gemma3_text": 1,
    "mimo_v2_flash": 4,
    "qwen3_next": 2,
    "falcon_h1": 1,
    "deepseek_v3": 8,
    "deepseek_v32": 8,
}
"""The examples of the configurator, each with a number of ranks that its heads are split over."""


SPARSE = {"minimax_m3_vl": 2}
"""An example whose layers have index rows beside keys and values, and its ranks."""


class Heads(NamedTuple):
    """Heads of a rank, and the widths of their keys and values."""

    heads: int
    key: int
    value: int


def heads_of(model: str) -> Heads | None:
    """None for models without keys and values by head."""
    geometry = _shape(model).attention
    if not isinstance(geometry, HeadGeometry):
        return None
    heads = max(1, geometry.head_num // (MODELS | SPARSE)[model])
    return Heads(heads, geometry.head_dim, geometry.v_head_dim)


def latent_of(model: str) -> LatentGeometry | None:
    """None for models without latents."""
    geometry = _shape(model).attention
    return geometry if isinstance(geometry, LatentGeometry) else None


def index_of(model: str) -> IndexGeometry | None:
    """None for models without index keys."""
    return _shape(model).index


def state_of(model: str) -> StateGeometry | None:
    """None for models without a recurrent state."""
    return _shape(model).state


def layers_of(model: str) -> int:
    """How many layers keep something of each token."""
    return len(_shape(model).layers)


def _shape(model: str) -> ModelShape:
    return ModelShape.from_hf_config(example_config(model))
