"""Rows beside index keys, layers that share a choice, and rings of pooled keys; bytes by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kvproto.configurator import (
    MemoryBudget,
    ModelShape,
    ParallelLayout,
    PlanError,
    PoolPlan,
    ServingOptions,
    SpeculativeOptions,
    example_config,
    plan,
)
from kvproto.protocols import (
    DSALeafRequest,
    HybridPoolRequest,
    PlatformCapabilities,
    bytes_of_pool,
)
from tests.configurator.test_build import CPU
from tests.configurator.test_plan import GIB, ONE, shape_of

BOTH = ("packed", "raw")
RAW = replace(CPU, dsa_rows=("raw",))
RAW_FIRST = replace(CPU, dsa_rows=("raw", "packed"))
PACKED = replace(CPU, dsa_rows=("packed",))
FNUZ = replace(CPU, device_type="rocm", fp8_variant="e4m3fnuz")


def planned(
    shape: ModelShape,
    platform: PlatformCapabilities = CPU,
    ranks: ParallelLayout = ONE,
    pp_rank: int = 0,
    **options: Any,
) -> PoolPlan:
    asked: dict[str, Any] = {"page_size": 64, "kv_cache_dtype": "fp8_e4m3"} | options
    budget = MemoryBudget.of_caches(40 * GIB)
    return plan(shape, ServingOptions(**asked), ranks, budget, platform=platform, pp_rank=pp_rank)


@pytest.mark.parametrize(
    ("platform", "asked", "width"),
    [
        (CPU, None, 656),
        (CPU, "raw", 576),
        (RAW, None, 576),
        (RAW_FIRST, None, 576),
        (RAW_FIRST, "packed", 656),
        (PACKED, None, 656),
        (FNUZ, None, 576),
    ],
)
def test_rows_are_what_the_platform_prefers_or_what_is_asked_for(
    platform: PlatformCapabilities, asked: str | None, width: int
) -> None:
    made = planned(shape_of("deepseek_v32"), platform, dsa_rows=asked)
    # 512 numbers, and with 4 scales of 4 bytes and 64 two-byte numbers, or 64 numbers more.
    assert made.bytes_per_token == 61 * (width + 128 + 4)
    assert isinstance(made.pool, DSALeafRequest)
    assert made.pool.kv_cache_dim == width
    plain = planned(shape_of("deepseek_v32"), platform, dsa_rows=asked, kv_cache_dtype="auto")
    assert plain.bytes_per_token == 61 * (576 * 2 + 132)


NARROW = ModelShape.from_hf_config(example_config("deepseek_v32") | {"kv_lora_rank": 448})


@pytest.mark.parametrize(
    ("shape", "platform", "asked", "said"),
    [
        (
            None,
            RAW,
            "packed",
            "dsa_rows='packed': no kernel of the platform 'cpu' reads them; give",
        ),
        (
            None,
            PACKED,
            "raw",
            "dsa_rows='raw': no kernel of the platform 'cpu' reads them; give 'pa",
        ),
        (
            None,
            FNUZ,
            "packed",
            "dsa_rows='packed': they are e4m3fn, and the platform's numbers are e4m3fnuz; give 'ra",
        ),
        (
            NARROW,
            CPU,
            "packed",
            "dsa_rows='packed': 128 numbers of a latent share a scale, and it has 448; give 'raw'",
        ),
        (
            NARROW,
            PACKED,
            None,
            "kv_cache_dtype='fp8_e4m3': kernels of the platform 'cpu' read no such rows beside "
            "index keys; store rows in another type",
        ),
        (
            None,
            replace(CPU, dsa_rows=()),
            "raw",
            "dsa_rows='raw': no kernel of the platform 'cpu' reads them; store rows in another",
        ),
        (None, CPU, "loose", "dsa_rows='loose': it is none of its values; give one of 'packed'"),
    ],
)
def test_rows_that_nobody_reads(
    shape: ModelShape | None, platform: PlatformCapabilities, asked: str | None, said: str
) -> None:
    with pytest.raises(PlanError) as error:
        planned(shape or shape_of("deepseek_v32"), platform, dsa_rows=asked)
    assert str(error.value).startswith(said)


def test_rows_that_do_not_fit_give_way_where_nobody_asked_for_them() -> None:
    assert planned(NARROW).bytes_per_token == 61 * (448 + 64 + 132)


SHARED = ModelShape.from_hf_config(
    example_config("glm_moe_dsa") | {"index_topk_freq": 4, "indexer_types": None}
)


def test_layers_that_share_a_choice_keep_no_keys() -> None:
    made = planned(SHARED)
    assert isinstance(made.pool, DSALeafRequest)
    layers = len(SHARED.layers)
    # From layer 2 on every fourth chooses, and the two before.
    keyed = [i for i in range(layers) if i < 2 or (i - 1) % 4 == 0]
    assert [i for i, skips in enumerate(made.pool.skip_topk_layers) if not skips] == keyed
    assert made.bytes_per_token == layers * 656 + len(keyed) * 132


def test_a_stage_has_the_keys_of_its_own_layers() -> None:
    ranks = ParallelLayout(pp_size=2)
    stages = [planned(SHARED, CPU, ranks, rank) for rank in (0, 1)]
    keys = [
        sum(not skips for skips in made.pool.skip_topk_layers)
        for made in stages
        if isinstance(made.pool, DSALeafRequest)
    ]
    whole = planned(SHARED).pool
    assert isinstance(whole, DSALeafRequest)
    assert sum(keys) == sum(not skips for skips in whole.skip_topk_layers)
    for made, kept in zip(stages, keys, strict=True):
        first, end = made.layers
        assert made.bytes_per_token == (end - first) * 656 + kept * 132


def test_rings_of_pooled_keys_have_room_for_drafts_and_requests_to_come() -> None:
    config = example_config("glm5_next")
    config["text_config"] |= {"index_kpool_compress": True}
    shape = ModelShape.from_hf_config(config)
    drafts = SpeculativeOptions(kind="eagle", draft_tokens=3, draft_layers=2)
    made = planned(
        shape,
        role="decode",
        pre_alloc_size=10,
        max_running_requests=6,
        max_total_tokens=6400,
        speculative=drafts,
    )
    assert isinstance(made.pool, HybridPoolRequest)
    for leaf, layers in ((made.pool.full, 11), (made.draft, 2)):
        assert isinstance(leaf, DSALeafRequest)
        assert (leaf.tail_length, leaf.tail_rows) == (16 + 3, 6 + 10 + 1)
        rows = layers * (512 + 16) * (6400 + 64)
        keys = layers * 132 * (6400 + 64) // 16
        rings = 2 * layers * 17 * 19 * 128 * 2
        assert bytes_of_pool(leaf) == rows + keys + rings
