"""What a model's caches must hold: the layers, what each keeps, and nothing about any device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .attention import (
    attention_geometry,
    compressed_geometry,
    index_geometry,
    shared_choices,
    window_geometry,
)
from .context_field import stated_context_len
from .fields import HEADS, Fields
from .geometry import (
    AttentionGeometry,
    CompressedGeometry,
    HeadGeometry,
    IndexGeometry,
    StateGeometry,
)
from .layer_kinds import LayerKind, layer_kinds, rows_per_layer
from .states import state_geometry

__all__ = ["ModelShape"]

_RECURRENT = ("linear", "state_only")
_WINDOWS = ("sliding_window", "attention_chunk_size", "sliding_window_size")
# Attention and a state side by side in every layer.
_PARALLEL_FAMILIES = frozenset({"falcon_h1"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """The layers of a model, and the geometry of each kind, before any split over ranks.

    `layers[i]` is the kind of global layer i; `state_layer_ids` the layers that keep a recurrent
    state, which may attend as well. `attention` is the geometry of every layer that attends but
    the windowed ones, which have `window_attention`; `window` is their length in tokens.
    `reused_choice_ids` are indexed layers without index keys: they take an earlier layer's
    choice. `draft_layers` counts the layers that predict further tokens, which `layers` leaves out;
    those of `draft_window_ids`, counted from 0, attend to the window. Layers of `embedding_ids`
    have embeddings of their own, and keep the inputs of their convolution with a request's state.
    Of `layers`, `rows_per_layer` one after another are one layer of the model, which stages and
    counts of layers do not part. The last `borrowing_layers` keep nothing and read the rows of the
    last earlier layer of their kind.
    """

    model_type: str
    layers: tuple[LayerKind, ...]
    attention: AttentionGeometry | None
    window_attention: AttentionGeometry | None = None
    window: int | None = None
    index: IndexGeometry | None = None
    reused_choice_ids: tuple[int, ...] = ()
    compressed: CompressedGeometry | None = None
    state: StateGeometry | None = None
    state_layer_ids: tuple[int, ...] = ()
    draft_layers: int = 0
    draft_window_ids: tuple[int, ...] = ()
    embedding_ids: tuple[int, ...] = ()
    context_len: int | None = None
    rows_per_layer: int = 1
    borrowing_layers: int = 0

    @classmethod
    def from_hf_config(cls, config: Mapping[str, Any]) -> ModelShape:
        """The shape that a `config.json` states, as parsed; a nested `text_config` is followed.

        :raises ShapeError: where the config lacks a field that the shape needs, or contradicts
            itself.
        """
        fields = Fields(config)
        kinds = layer_kinds(fields)
        recurrent = _recurrent_ids(fields, kinds)
        windowed = any(kind in ("sliding", "chunked") for kind in kinds)
        window = _window(fields, kinds)
        return cls(
            model_type=fields.model_type,
            layers=kinds,
            attention=attention_geometry(fields) if fields.has_any(*HEADS) else None,
            window_attention=window_geometry(fields) if windowed else None,
            window=window,
            index=_index(fields, kinds),
            reused_choice_ids=shared_choices(fields, kinds),
            compressed=compressed_geometry(fields) if "compressed" in kinds else None,
            state=state_geometry(fields) if recurrent else None,
            state_layer_ids=recurrent,
            draft_layers=fields.integer("num_nextn_predict_layers") or 0,
            draft_window_ids=fields.integers("mtp_local_layer_ids") or () if windowed else (),
            # These ids count from 1.
            embedding_ids=tuple(i - 1 for i in fields.integers("ple_layer_ids") or ()),
            borrowing_layers=fields.integer("num_kv_shared_layers") or 0,
            rows_per_layer=rows_per_layer(fields),
            context_len=stated_context_len(fields),
        )

    def ids(self, *kinds: LayerKind) -> tuple[int, ...]:
        """Global ids of the layers of these kinds, ascending."""
        return tuple(i for i, kind in enumerate(self.layers) if kind in kinds)

    @property
    def attending(self) -> tuple[int, ...]:
        """Global ids of the layers that keep rows of tokens."""
        return self.ids("full", "sliding", "chunked", "indexed", "compressed")

    @property
    def is_latent(self) -> bool:
        """Whether the attending layers keep latent rows."""
        return self.attention is not None and not isinstance(self.attention, HeadGeometry)


def _window(fields: Fields, kinds: tuple[LayerKind, ...]) -> int | None:
    if "chunked" in kinds:
        return fields.positive("attention_chunk_size") or fields.positive(*_WINDOWS)
    if "sliding" not in kinds and "compressed" not in kinds:
        return None
    window = fields.positive(*_WINDOWS)
    if window is None and "sliding" in kinds:
        raise fields.lacks(*_WINDOWS)
    return window


def _index(fields: Fields, kinds: tuple[LayerKind, ...]) -> IndexGeometry | None:
    if "compressed" in kinds:
        return None
    index = index_geometry(fields)
    if index is None and "indexed" in kinds:
        raise fields.lacks("index_head_dim", "indexer_head_dim", "sparse_attention_config")
    return index


def _recurrent_ids(fields: Fields, kinds: tuple[LayerKind, ...]) -> tuple[int, ...]:
    if fields.model_type in _PARALLEL_FAMILIES:
        return tuple(range(len(kinds)))
    return tuple(i for i, kind in enumerate(kinds) if kind in _RECURRENT)
