"""What holds of every plan with a draft, one buffer, split tokens, chosen rows, rings, rows for
some of the tokens or for none, and pages that ranks keep in turn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, reject, settings
from hypothesis import strategies as st

from kvproto.configurator import (
    MemoryBudget,
    ModelShape,
    ParallelLayout,
    PlanError,
    PoolPlan,
    ServingOptions,
    SpeculativeOptions,
    plan,
    plan_from_json,
    plan_to_json,
)
from kvproto.protocols import UnifiedBufferRequest, bytes_of_pool, bytes_of_state
from tests.configurator.test_drafts import PLAIN
from tests.configurator.test_plan import GIB, ONE, PLANNED, budgets, shape_of
from tests.configurator.test_unified import OFFERS

EAGLE = ModelShape.from_hf_config(PLAIN)

ALL = replace(OFFERS, subsystems=OFFERS.subsystems | {"page_shards"})

drafts = st.sampled_from([None, "gpt_oss", "gemma2", "deepseek_v3", "deepseek_v32", "eagle"])
ranks = st.sampled_from(
    [
        ONE,
        ParallelLayout(tp_size=4),
        ParallelLayout(tp_size=8, dp_attention_size=2),
        ParallelLayout(tp_size=4, dcp_size=2),
        ParallelLayout(pp_size=2),
    ]
)
speculations = st.one_of(
    st.none(),
    st.builds(
        SpeculativeOptions,
        kind=st.sampled_from(["eagle", "standalone", "dflash", "ngram"]),
        draft_tokens=st.integers(1, 8),
        draft_layers=st.integers(1, 2),
        draft_kv_cache_dtype=st.sampled_from([None, "auto", "float32", "fp8_e4m3"]),
        draft_attn_tp_size=st.sampled_from([None, 1, 2]),
        draft_rows=st.sampled_from(["own", "fused"]),
    ),
)
servings = st.fixed_dictionaries(
    {
        "page_size": st.sampled_from([16, 64, 256]),
        "swa_full_tokens_ratio": st.sampled_from([0.8, 0.8, 0.02, 1.0]),
        "kv_cache_dtype": st.sampled_from(["auto", "fp8_e4m3"]),
        "dsa_rows": st.sampled_from([None, "packed", "raw"]),
        "pool_memory": st.sampled_from(["split", "unified"]),
        "max_running_requests": st.sampled_from([None, 16]),
        "max_total_tokens": st.sampled_from([None, 50_000]),
        "window_storage": st.sampled_from(["paged", "ring"]),
        "allocator_fallback": st.sampled_from(["core", "none"]),
        "speculative": speculations,
    }
)
# What goes with other options only, or with some families: as it is, or with all that it needs.
paths: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {},
        {},
        {"role": "decode", "pre_alloc_size": 8},
        {"host_to_device_ratio": 3, "prefix_cache": False},
        {"kv_sharding": "pages", "role": "prefill"},
        {"rows": "none", "prefix_cache": False, "chunked_prefill_size": None},
    ]
)
names = st.one_of(st.sampled_from(PLANNED), st.sampled_from(["deepseek_v32", "gpt_oss", "qwen2"]))


def drafted(
    name: str, draft: str | None, layout: ParallelLayout, memory: int, options: dict[str, Any]
) -> PoolPlan:
    shape = None if draft is None else EAGLE if draft == "eagle" else shape_of(draft)
    return plan(
        shape_of(name),
        ServingOptions(**options),
        layout,
        MemoryBudget.of_caches(memory),
        platform=ALL,
        pp_rank=layout.pp_size - 1,
        draft_shape=shape,
    )


@settings(deadline=None, max_examples=200)
@given(names, drafts, ranks, servings, paths, budgets, budgets)
def test_memory_is_never_exceeded_and_more_of_it_never_means_fewer_tokens(
    name: str,
    draft: str | None,
    layout: ParallelLayout,
    options: dict[str, Any],
    path: dict[str, Any],
    a: int,
    b: int,
) -> None:
    less, more = sorted((a, b))
    options |= path
    try:
        small = drafted(name, draft, layout, less, options)
    except PlanError:
        reject()
    large = drafted(name, draft, layout, more, options)
    assert small.tokens.capacity <= large.tokens.capacity
    for made in (small, large):
        page = options["page_size"]
        assert made.tokens.full % page == made.tokens.window % page == 0
        assert made.allocated_bytes <= made.cache_bytes
        assert made.allocated_bytes == _asked(made)
        assert plan_from_json(plan_to_json(made)) == made


def _asked(made: PoolPlan) -> int:
    """Bytes by the requests alone."""
    state = 0 if made.state is None else bytes_of_state(made.state)
    if isinstance(made.subsystem, UnifiedBufferRequest):
        slots = 0 if made.state is None else bytes_of_state(_without_scratch(made.state))
        return made.subsystem.total_bytes + state - slots
    pools = sum(bytes_of_pool(pool) for pool in (made.pool, made.draft) if pool is not None)
    return pools if _holds_state(made) else pools + state


def _without_scratch(state: Any) -> Any:
    return replace(state, speculative_num_draft_tokens=None)


def _holds_state(made: PoolPlan) -> bool:
    return type(made.pool).__name__ == "HybridPoolRequest"


UNRELATED: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    # Nothing is drafted: what a draft would be changes nothing.
    ("llama", {}, {"draft_shape": EAGLE}),
    ("gpt_oss", {}, {"draft_shape": shape_of("gemma2")}),
    # Drafts without a cache.
    (
        "llama",
        {"speculative": SpeculativeOptions(kind="ngram", draft_tokens=4)},
        {
            "draft_shape": EAGLE,
            "draft_layers": 2,
            "draft_kv_cache_dtype": "float32",
            "draft_attn_tp_size": 1,
            "draft_rows": "fused",
        },
    ),
    # Latent rows are the same on every rank.
    (
        "deepseek_v3",
        {"speculative": SpeculativeOptions(kind="eagle", draft_tokens=4)},
        {"draft_attn_tp_size": 2, "draft_kv_cache_dtype": "bfloat16", "dsa_rows": "raw"},
    ),
    # Rows that hold no e4m3, or have no index keys beside them.
    ("deepseek_v32", {}, {"dsa_rows": "raw", "platform": replace(OFFERS, dsa_rows=("raw",))}),
    ("llama", {"kv_cache_dtype": "fp8_e4m3"}, {"dsa_rows": "raw"}),
    # Rows that are no latents, and the layout that latents have anyway.
    ("llama", {}, {"latent_layout": "latent_split_nz"}),
    ("deepseek_v3", {}, {"latent_layout": "latent_rows"}),
    # What a platform offers and nobody asks for.
    ("gpt_oss", {}, {"platform": replace(OFFERS, subsystems=frozenset())}),
]


@given(st.sampled_from(UNRELATED), st.data())
def test_what_is_not_asked_for_changes_nothing(
    case: tuple[str, dict[str, Any], dict[str, Any]], data: st.DataObject
) -> None:
    name, options, unrelated = case
    chosen = data.draw(st.lists(st.sampled_from(sorted(unrelated)), unique=True))
    changed = {key: unrelated[key] for key in data.draw(st.permutations(chosen))}
    assert _with(name, options, changed) == _with(name, options, {})


def _with(name: str, options: dict[str, Any], changed: dict[str, Any]) -> PoolPlan:
    named = dict(changed)
    arguments = {"platform": named.pop("platform", OFFERS)}
    arguments["draft_shape"] = named.pop("draft_shape", None)
    asked = dict(options)
    spec = asked.get("speculative")
    own = {key: named.pop(key) for key in list(named) if key.startswith("draft_")}
    if spec is not None:
        asked["speculative"] = replace(spec, **own)
    return plan(
        shape_of(name),
        ServingOptions(page_size=64, **asked, **named),
        ParallelLayout(tp_size=4),
        MemoryBudget.of_caches(40 * GIB),
        **arguments,
    )
