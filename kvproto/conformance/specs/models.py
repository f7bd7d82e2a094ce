"""Whole models to plan and to build: every example config, under options that differ."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal

from kvproto._bad_input import BadInput
from kvproto.configurator import (
    MemoryBudget,
    ModelShape,
    ParallelLayout,
    ServingOptions,
    SpeculativeOptions,
    StateOptions,
    example_config,
    example_names,
)

from .nearest import nearest
from .spec import Spec

__all__ = ["MODELS", "MODEL_SPECS", "WAYS", "ModelRequest", "deployment_named"]

_GIB = 1 << 30
_SHORT_WINDOW = 16
_CONTEXT = 4096
_EIGHT = ParallelLayout(tp_size=8)
_SPLIT = {"olmo_hybrid": 2}
"""Ranks of models whose heads of recurrent state cannot be split over eight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """A model, how it is served and over which ranks; `pp_rank` is the stage that is built.

    `device` is `cpu` for a few pages that are really allocated, with windows shortened so that few
    hold them, or `meta` for the sizes of a real device, of which no byte is.
    """

    model: str
    options: ServingOptions
    parallel: ParallelLayout = field(default_factory=lambda: _EIGHT)
    pp_rank: int = 0
    device: Literal["cpu", "meta"] = "cpu"

    @property
    def shape(self) -> ModelShape:
        """What the model's config says of its caches."""
        return _shape(self.model, short=self.device == "cpu")

    @property
    def budget(self) -> MemoryBudget:
        """More than the few pages take; for real sizes that of a device."""
        return MemoryBudget.of_caches(1 << 50 if self.device == "cpu" else 40 * _GIB)


_PUBLISHED: dict[str, tuple[str, dict[str, Any]]] = {
    "minimax_m3_vl_sparse": (
        "minimax_m3_vl",
        {
            "text_config": {
                "sparse_attention_config": {
                    "sparse_attention_freq": [0] * 3 + [1] * 57,
                    "sparse_disable_index_value": [1] * 40 + [0] * 20,
                    "sparse_index_dim": 128,
                }
            }
        },
    ),
    "glm_moe_dsa_shared": ("glm_moe_dsa", {"index_topk_freq": 4, "indexer_types": None}),
    "glm5_next_weighed": ("glm5_next", {"text_config": {"index_kpool_compress": True}}),
}
"""Further models: an example's config with fields that models state and its defaults do not."""

MODELS: tuple[str, ...] = (*example_names(), *_PUBLISHED)
"""The examples, and those of them that differ in a field that decides what a leaf holds."""


def _config(model: str) -> dict[str, Any]:
    base, stated = _PUBLISHED.get(model, (model, {}))
    config = example_config(base)
    for name, value in stated.items():
        config[name] = config[name] | value if isinstance(value, dict) else value
    return config


@lru_cache(maxsize=128)
def _shape(model: str, *, short: bool) -> ModelShape:
    shape = ModelShape.from_hf_config(_config(model))
    return replace(shape, window=_SHORT_WINDOW) if short and shape.window else shape


@dataclass(frozen=True, slots=True, kw_only=True)
class _Served:
    """One way to serve whatever model, under the name that ends the spec's."""

    name: str
    options: ServingOptions
    parallel: ParallelLayout = _EIGHT
    pp_rank: int = 0
    device: Literal["cpu", "meta"] = "cpu"

    def spec(self, model: str) -> Spec:
        asked = ModelRequest(
            model=model,
            options=self.options,
            parallel=replace(self.parallel, tp_size=_SPLIT.get(model, self.parallel.tp_size)),
            pp_rank=self.pp_rank,
            device=self.device,
        )
        return Spec(f"{model}-{self.name}", asked)


def _few(page_size: int, **options: Any) -> ServingOptions:
    """A few pages, of which more are full ones than the shortened windows need."""
    small: dict[str, Any] = {
        "page_size": page_size,
        "max_total_tokens": max(3 * page_size, 96),
        "swa_full_tokens_ratio": 0.67,
        "max_running_requests": 2,
        "context_len": _CONTEXT,
        "state": StateOptions(slots=3),
    }
    return ServingOptions(**(small | options))


_DRAFT = SpeculativeOptions(kind="eagle", draft_tokens=2, draft_layers=1)

_SERVED = (
    _Served(name="page1", options=_few(1)),
    _Served(
        name="page16-stage2",
        options=_few(16, model_dtype="float16"),
        parallel=ParallelLayout(tp_size=8, pp_size=2),
        pp_rank=1,
    ),
    _Served(
        name="page256-one-pool",
        options=_few(256, max_total_tokens=256, window_pools=False, prefix_cache=False),
    ),
    _Served(name="page64-fp8", options=_few(64, kv_cache_dtype="fp8_e4m3")),
    _Served(
        name="page64-fp8-raw",
        options=_few(
            64,
            kv_cache_dtype="fp8_e5m2",
            dsa_rows="raw",
            role="prefill",
            state=StateOptions(slots=6),
        ),
        parallel=ParallelLayout(tp_size=16, dp_attention_size=2),
    ),
    _Served(name="page16-fp4", options=_few(16, kv_cache_dtype="fp4_mx16")),
    _Served(name="page16-nvfp4", options=_few(16, kv_cache_dtype="nvfp4")),
    _Served(name="page128-mxfp8", options=_few(128, kv_cache_dtype="mxfp8")),
    _Served(name="page16-hnd", options=_few(16, layout="hnd")),
    _Served(name="page16-paged-nhd", options=_few(16, layout="paged_nhd")),
    _Served(name="page16-vectorized", options=_few(16, layout="vectorized_5d")),
    _Served(
        name="page16-envelope-nz",  # of rows of heads, and of latent rows
        options=_few(16, layout="page_envelope", latent_layout="latent_split_nz"),
    ),
    _Served(
        name="page64-draft",
        options=_few(64, speculative=_DRAFT, role="decode", pre_alloc_size=2),
    ),
    _Served(
        name="page16-dcp2-draft",
        options=_few(16, speculative=_DRAFT),
        parallel=ParallelLayout(tp_size=8, dcp_size=2),
    ),
    _Served(name="page16-rings", options=_few(16, window_storage="ring", pre_alloc_size=1)),
    _Served(name="page16-unified", options=_few(16, pool_memory="unified")),
    _Served(name="page16-page-shards", options=_few(16, kv_sharding="pages")),
    _Served(name="page64-host-rows", options=_few(64, host_to_device_ratio=2, prefix_cache=False)),
    _Served(
        name="page16-no-rows",
        options=_few(
            16, rows="none", prefix_cache=False, chunked_prefill_size=None, role="prefill"
        ),
    ),
    _Served(
        name="real",
        options=ServingOptions(page_size=64, context_len=_CONTEXT, max_running_requests=32),
        device="meta",
    ),
)

MODEL_SPECS: tuple[Spec, ...] = tuple(served.spec(model) for model in MODELS for served in _SERVED)
"""Every model served in every way; what cannot be planned so is declined, with why."""

WAYS: tuple[str, ...] = tuple(served.name for served in _SERVED)
"""The ways, by the names that end those of deployments."""


def deployment_named(name: str) -> Spec:
    """The spec of that name.

    :raises BadInput: naming those most like it.
    """
    for spec in MODEL_SPECS:
        if spec.name == name:
            return spec
    raise BadInput(f"no deployment '{name}': {nearest(name, (spec.name for spec in MODEL_SPECS))}")
