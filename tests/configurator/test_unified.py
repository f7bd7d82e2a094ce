"""One byte buffer for every pool, and drafts in its pages, on a platform that offers them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kvproto.configurator import (
    BuildError,
    MemoryBudget,
    ModelShape,
    ParallelLayout,
    PlanError,
    PoolPlan,
    ServingOptions,
    SpeculativeOptions,
    StateOptions,
    build,
    plan,
    plan_from_json,
    plan_to_json,
)
from kvproto.protocols import (
    Declined,
    HybridPoolRequest,
    PlatformCapabilities,
    SubsystemPlatform,
    SubsystemPools,
    SubsystemRequest,
    SWAPoolRequest,
    UnifiedBufferRequest,
    bytes_of_state,
    supports,
)
from kvproto.reference import CORE, ReferencePlatform, build_reference_leaf
from tests.configurator.test_build import CPU, ON_CPU
from tests.configurator.test_drafts import PLAIN
from tests.configurator.test_plan import GIB, ONE, shape_of

OFFERS = replace(CPU, subsystems=frozenset({"unified_buffer", "fused_draft"}))
FUSED = SpeculativeOptions(kind="eagle", draft_tokens=4, draft_rows="fused")
DRAFT = ModelShape.from_hf_config(PLAIN)


def unified(
    name: str,
    ranks: ParallelLayout = ONE,
    platform: PlatformCapabilities = OFFERS,
    memory: int = 40 * GIB,
    **options: Any,
) -> PoolPlan:
    asked = ServingOptions(page_size=64, pool_memory="unified", **options)
    return plan(
        shape_of(name),
        asked,
        ranks,
        MemoryBudget.of_caches(memory),
        platform=platform,
        draft_shape=None if asked.speculative is None else DRAFT,
    )


def test_a_pair_has_all_bytes_in_one_buffer() -> None:
    made = unified("gpt_oss")
    request = made.subsystem
    assert isinstance(request, UnifiedBufferRequest)
    assert request.subsystems == {"unified_buffer"}
    assert request.pool == made.pool
    assert request.total_bytes == 40 * GIB
    # 18 layers of either kind, 8 heads of 64 and 64: a multiple of 32 bytes as it is.
    side = 18 * 8 * 128 * 2
    assert (request.full_entry_bytes, request.window_entry_bytes) == (side, side)
    left = 40 * GIB - 4096 - 2 * 64 * side
    assert made.tokens.full == left * 10 // (18 * side) // 64 * 64
    assert made.tokens.window == made.tokens.full * 8 // 10 // 64 * 64
    shares = {share.part: share.bytes for share in made.shares}
    assert shares["unused"] == 0
    assert shares["full"] + shares["window"] + shares["growth"] == 40 * GIB
    assert plan_from_json(plan_to_json(made)) == made


def test_a_cap_makes_the_buffer_as_large_as_it_is_at_first() -> None:
    made = unified("gpt_oss", max_total_tokens=6400)
    assert isinstance(made.subsystem, UnifiedBufferRequest)
    side = 18 * 8 * 128 * 2
    assert made.subsystem.boot_bytes == (6400 + 5120 + 128) * side
    assert 0 <= made.subsystem.total_bytes - made.subsystem.boot_bytes < 4096
    assert made.allocated_bytes == made.subsystem.total_bytes


def test_scratch_of_drafted_tokens_lies_beside_the_buffer() -> None:
    made = unified("qwen3_next", speculative=FUSED, max_running_requests=8)
    assert isinstance(made.subsystem, UnifiedBufferRequest)
    assert isinstance(made.pool, HybridPoolRequest)
    assert made.subsystem.subsystems == {"unified_buffer", "fused_draft"}
    state = made.pool.state
    slot = 36 * (8192 * 3 * 2 + 32 * 128 * 128 * 4)
    assert bytes_of_state(state) == (state.size + 1 + 9 * 4) * slot
    assert made.subsystem.total_bytes == (40 * GIB - 9 * 4 * slot) // 4096 * 4096
    # 12 layers of 2 heads of 256 and 256, and the draft's 8 heads of 64 and 64.
    assert made.subsystem.full_entry_bytes == 12 * 2 * 512 * 2 + 8 * 128 * 2
    assert made.allocated_bytes <= made.cache_bytes


def test_rows_of_a_draft_are_padded_to_entries() -> None:
    config = PLAIN | {"num_key_value_heads": 1, "head_dim": 12}
    odd = ModelShape.from_hf_config(config)
    options = ServingOptions(page_size=64, pool_memory="unified", speculative=FUSED)
    made = plan(
        shape_of("gpt_oss"),
        options,
        ONE,
        MemoryBudget.of_caches(40 * GIB),
        platform=OFFERS,
        draft_shape=odd,
    )
    assert isinstance(made.subsystem, UnifiedBufferRequest)
    # 48 bytes of one head's 12 and 12 numbers, in an entry of whole 32s.
    assert made.subsystem.full_entry_bytes == 18 * 8 * 128 * 2 + 64
    assert made.subsystem.window_entry_bytes == 18 * 8 * 128 * 2


def test_windows_of_a_draft_lie_with_the_models() -> None:
    options = ServingOptions(
        page_size=64, pool_memory="unified", speculative=replace(FUSED, draft_layers=2)
    )
    budget = MemoryBudget.of_caches(40 * GIB)
    made = plan(
        shape_of("gemma2"), options, ONE, budget, platform=OFFERS, draft_shape=shape_of("gpt_oss")
    )
    assert isinstance(made.subsystem, UnifiedBufferRequest)
    assert made.subsystem.draft_windows_shared
    # 13 layers of either kind of 4 heads of 256 and 256; one of either of 8 heads of 64 and 64.
    side = 13 * 4 * 512 * 2 + 8 * 128 * 2
    assert made.subsystem.full_entry_bytes == made.subsystem.window_entry_bytes == side
    longer = plan(
        shape_of("gpt_oss"), options, ONE, budget, platform=OFFERS, draft_shape=shape_of("gemma2")
    )
    assert isinstance(longer.subsystem, UnifiedBufferRequest)
    assert not longer.subsystem.draft_windows_shared
    assert longer.subsystem.full_entry_bytes == 18 * 8 * 128 * 2 + 2 * 4 * 512 * 2
    assert longer.subsystem.window_entry_bytes == 18 * 8 * 128 * 2


class OneBuffer(ReferencePlatform):
    """A platform with a builder. Its parts are those of the reference: here it is asked, not how
    it lies in memory."""

    def __init__(self, **changed: Any) -> None:
        super().__init__("acme", OFFERS)
        object.__setattr__(self, "asked", [])
        object.__setattr__(self, "changed", changed)

    asked: list[UnifiedBufferRequest]
    changed: dict[str, Any]

    def build_subsystem(self, request: SubsystemRequest, /) -> SubsystemPools | Declined:
        assert isinstance(request, UnifiedBufferRequest)
        self.asked.append(request)
        pool = CORE.pool(request.pool, build_reference_leaf)
        assert not isinstance(pool, Declined)
        state = request.state
        if isinstance(request.pool, HybridPoolRequest):
            state = request.pool.state
        held = None if state is None else CORE.state(state)
        table = CORE.request_pool(request.request_pool, held)
        draft = request.draft and CORE.pool(request.draft, build_reference_leaf)
        parts: dict[str, Any] = {
            "pool": pool,
            "state": held,
            "draft": draft,
            "request_pool": table,
            "allocator": CORE.allocator(request.allocator, pool, table, self.build_allocator),
        }
        return SubsystemPools(**(parts | self.changed))


@pytest.mark.parametrize("name", ["gpt_oss", "qwen3_next", "kimi_linear", "gemma2"])
def test_the_platforms_builder_gets_the_request(name: str) -> None:
    few: dict[str, Any] = {
        "max_total_tokens": 8192,
        "swa_full_tokens_ratio": 1.0,
        "max_running_requests": 2,
    }
    made = unified(name, speculative=FUSED, state=StateOptions(slots=8), **few)
    platform = OneBuffer()
    assert supports(platform, SubsystemPlatform)
    built = build(made, platform, CORE)
    assert isinstance(made.subsystem, UnifiedBufferRequest)
    (asked,) = platform.asked
    assert asked.total_bytes == made.subsystem.total_bytes
    assert type(asked.pool) is type(made.pool)
    assert str(asked.pool.full.dtype) == str(made.subsystem.pool.full.dtype)
    assert built.pool is not None
    assert built.views is not None
    assert (built.views.swa is not None) == isinstance(made.pool, SWAPoolRequest)
    assert built.draft is not None
    assert built.draft_views is not None
    assert (built.state is None) == (made.state is None)
    assert built.allocator.alloc(64) is not None


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"draft": None}, "unified_buffer of platform 'acme': draft is none, asked was MHALeaf"),
        ({"state": None}, "unified_buffer of platform 'acme': state is none, asked was StatePool"),
        ({"pool": object()}, "unified_buffer of platform 'acme' needs KVPool"),
        ({"allocator": object()}, "unified_buffer of platform 'acme' needs SlotAllocator"),
    ],
)
def test_a_part_that_is_missing_ends_the_build(changed: dict[str, Any], said: str) -> None:
    made = unified(
        "qwen3_next",
        speculative=FUSED,
        max_total_tokens=1024,
        max_running_requests=2,
        state=StateOptions(slots=8),
    )
    with pytest.raises(BuildError) as error:
        build(made, OneBuffer(**changed), CORE)
    assert str(error.value).startswith(said)


def test_platforms_without_the_builder() -> None:
    made = unified("gpt_oss", max_total_tokens=6400)
    with pytest.raises(BuildError, match="platform 'cpu' offers no unified_buffer"):
        build(made, ON_CPU, CORE)
    boast = ReferencePlatform("boast", OFFERS)
    with pytest.raises(BuildError, match="platform 'boast': its unified_buffer needs Subsystem"):
        build(made, boast, CORE)

    class Declining(OneBuffer):
        def build_subsystem(self, request: SubsystemRequest, /) -> SubsystemPools | Declined:
            return Declined("rows of float32 only")

    with pytest.raises(BuildError, match="platform 'acme' declined unified_buffer: rows of float"):
        build(made, Declining(), CORE)


OWN = replace(FUSED, draft_rows="own")


@pytest.mark.parametrize(
    ("name", "ranks", "platform", "options", "said"),
    [
        (
            "gpt_oss",
            {},
            CPU,
            {},
            "pool_memory='unified': the platform 'cpu' offers no unified_buffer; give 'split', or "
            "use a platform that does",
        ),
        (
            "gpt_oss",
            {},
            replace(OFFERS, subsystems=frozenset({"unified_buffer"})),
            {"speculative": FUSED},
            "draft_rows='fused': the platform 'cpu' offers no fused_draft; give 'own', or use a",
        ),
        ("gpt_oss", {}, OFFERS, {"speculative": OWN}, "draft_rows='own': the ids of a unified"),
        ("llama", {}, OFFERS, {}, "pool_memory='unified': layers 0 to 31 of 'llama' keep slots"),
        ("mistral", {}, OFFERS, {}, "pool_memory='unified': layers 0 to 31 of 'mistral' keep slo"),
        ("gpt_oss", {}, OFFERS, {"window_pools": False}, "pool_memory='unified': layers 0 to 35"),
        ("mamba2", {}, OFFERS, {}, "pool_memory='unified': layers 0 to 63 of 'mamba2' keep slots"),
        (
            "gpt_oss",
            {},
            OFFERS,
            {"window_storage": "ring", "max_running_requests": 4},
            "pool_memory='unified': window_storage='ring' lends no window slots",
        ),
        (
            "qwen3_next",
            {"tp_size": 2, "dcp_size": 2},
            OFFERS,
            {},
            "pool_memory='unified': dcp_size=2: ranks split tokens of latent rows alone there",
        ),
        (
            "kimi_linear",
            {"tp_size": 2, "dcp_size": 2},
            OFFERS,
            {"speculative": FUSED, "max_running_requests": 4},
            "draft_rows='fused': a page has a rank's part of the tokens (dcp_size=2), a draft all",
        ),
        (
            "gpt_oss",
            {"pp_size": 3, "pp_layers": (34, 1, 1)},
            OFFERS,
            {},
            "pool_memory='unified': layers 34 to 34 of 'gpt_oss' keep slots of one kind, which",
        ),
    ],
)
def test_what_one_buffer_cannot_be_asked_for(
    name: str,
    ranks: dict[str, Any],
    platform: PlatformCapabilities,
    options: dict[str, Any],
    said: str,
) -> None:
    with pytest.raises(PlanError) as error:
        unified(name, ParallelLayout(**ranks), platform, **options)
    assert str(error.value).startswith(said)


def test_fused_rows_need_the_buffer() -> None:
    options = ServingOptions(page_size=64, speculative=FUSED)
    budget = MemoryBudget.of_caches(GIB)
    with pytest.raises(PlanError, match=r"draft_rows='fused'.*give 'own', or pool_memory='unif"):
        plan(shape_of("gpt_oss"), options, ONE, budget, platform=OFFERS, draft_shape=DRAFT)


def test_latent_rows_of_a_draft_lie_in_no_entry() -> None:
    options = ServingOptions(page_size=64, pool_memory="unified", speculative=FUSED)
    latent = shape_of("deepseek_v3")
    budget = MemoryBudget.of_caches(40 * GIB)
    with pytest.raises(PlanError, match="draft_rows='fused': only rows by head lie beside"):
        plan(shape_of("gpt_oss"), options, ONE, budget, platform=OFFERS, draft_shape=latent)


def test_a_buffer_holds_what_there_is_at_first() -> None:
    made = unified("gpt_oss", max_total_tokens=6400).subsystem
    assert isinstance(made, UnifiedBufferRequest)
    with pytest.raises(ValueError, match=r"total_bytes=4096: the slots that there are at first"):
        replace(made, total_bytes=4096)
    with pytest.raises(ValueError, match="both need windowed layers"):
        replace(made, draft_windows_shared=True)
