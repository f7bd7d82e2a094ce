"""Index keys of several tokens beside rows by head, on a platform that offers them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

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
    example_config,
    plan,
    plan_from_json,
    plan_to_json,
)
from kvproto.protocols import (
    Declined,
    HybridPoolRequest,
    MHALeafRequest,
    QSAPoolRequest,
    SubsystemPools,
    SubsystemRequest,
    bytes_of_state,
)
from kvproto.reference import CORE, HybridLinearPool, ReferencePlatform, build_reference_leaf
from tests.configurator.test_build import CPU
from tests.configurator.test_plan import GIB, ONE

OFFERS = replace(CPU, subsystems=frozenset({"qsa_pool", "unified_buffer"}))


def shape() -> ModelShape:
    config = example_config("qwen4_exp")
    config["text_config"] |= {"indexer_head_dim": 128, "indexer_compress_ratio": 16}
    return ModelShape.from_hf_config(config)


def planned(ranks: ParallelLayout = ONE, page_size: int = 64, **options: Any) -> PoolPlan:
    asked: dict[str, Any] = {"max_running_requests": 8, "state": StateOptions(slots=40)} | options
    served = ServingOptions(page_size=page_size, **asked)
    return plan(shape(), served, ranks, MemoryBudget.of_caches(40 * GIB), platform=OFFERS)


def test_tokens_share_the_bytes_of_a_key_and_requests_have_rings() -> None:
    made = planned()
    request = made.subsystem
    assert isinstance(request, QSAPoolRequest)
    assert request.pool == made.pool
    assert isinstance(request.rows, MHALeafRequest)
    # 10 layers of 2 heads of 256 and 256, and a sixteenth of a key of 128 two-byte numbers.
    row, key = 10 * 2 * 512 * 2, 10 * 128 * 2 // 16
    assert made.bytes_per_token == row + key
    # Rings of 16 raw keys for 8 requests and for padding.
    rings = 10 * 9 * 16 * 128 * 2
    assert request.num_request_slots == 9
    assert request.index_bytes == (made.tokens.full + 64) * key + rings
    assert made.state is not None
    left = 40 * GIB - bytes_of_state(made.state) - rings
    assert made.tokens.full == (left - 64 * (row + key)) // (row + key) // 64 * 64
    shares = {share.part: share.bytes for share in made.shares}
    assert shares["full"] == (made.tokens.full + 64) * (row + key) + rings
    assert made.allocated_bytes <= 40 * GIB
    assert plan_from_json(plan_to_json(made)) == made


def test_rings_of_requests_to_come() -> None:
    request = planned(role="decode", pre_alloc_size=5).subsystem
    assert isinstance(request, QSAPoolRequest)
    assert request.num_request_slots == 8 + 5 + 1


class Indexed(HybridLinearPool):
    """A hybrid pool with the members that such keys have."""

    qsa_compress_ratio = 16
    qsa_compressed_page_size = 4

    def get_qsa_compressed_k_buffer(self, layer_id: int, /) -> torch.Tensor:
        return torch.zeros(1, 1, 128)

    def set_qsa_compressed_k_buffer(
        self, layer_id: int, loc: torch.Tensor, compressed_k: torch.Tensor, /
    ) -> None: ...

    def get_qsa_key_state_buffer(self, layer_id: int, /) -> torch.Tensor:
        return torch.zeros(1, 1, 128)

    def get_qsa_pending_state_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        return [], [], []


class Vendor(ReferencePlatform):
    """A platform with a builder of such pools."""

    def __init__(self, ratio: int = 16) -> None:
        super().__init__("acme", OFFERS)
        object.__setattr__(self, "ratio", ratio)
        object.__setattr__(self, "asked", [])

    ratio: int
    asked: list[SubsystemRequest]

    def build_subsystem(self, request: SubsystemRequest, /) -> SubsystemPools | Declined:
        self.asked.append(request)
        assert isinstance(request, QSAPoolRequest)
        assert isinstance(request.pool, HybridPoolRequest)
        leaf = build_reference_leaf(request.pool.full)
        assert not isinstance(leaf, Declined)
        state = CORE.state(request.pool.state)
        ids = request.pool.full_attention_layer_ids
        pool = Indexed(full_kv_pool=leaf, mamba_pool=state, full_attention_layer_ids=ids)
        pool.qsa_compress_ratio = self.ratio
        table = CORE.request_pool(request.request_pool, state)
        allocator = CORE.allocator(request.allocator, pool, table, self.build_allocator)
        return SubsystemPools(pool=pool, allocator=allocator, request_pool=table, state=state)


def test_the_platforms_builder_gets_the_request() -> None:
    vendor = Vendor()
    made = planned(max_total_tokens=1024, state=StateOptions(slots=6), max_running_requests=2)
    built = build(made, vendor, CORE)
    (asked,) = vendor.asked
    assert isinstance(asked, QSAPoolRequest)
    assert asked.index_dtype == torch.bfloat16
    assert isinstance(built.pool, Indexed)
    assert built.state is not None
    assert built.allocator.alloc(64) is not None


def test_keys_of_other_groups_are_refused() -> None:
    made = planned(max_total_tokens=1024, state=StateOptions(slots=6), max_running_requests=2)
    with pytest.raises(BuildError, match="qsa_compress_ratio is 8, asked was 16"):
        build(made, Vendor(8), CORE)
    with pytest.raises(BuildError, match="platform 'boast': its qsa_pool needs SubsystemPlatform"):
        build(made, ReferencePlatform("boast", OFFERS), CORE)


@pytest.mark.parametrize(
    ("ranks", "options", "said"),
    [
        ({}, {"page_size": 8}, "page_size=8: 16 tokens share an index key, which must not cross"),
        (
            {},
            {"max_running_requests": None},
            "max_running_requests=None: each request has a ring of raw index keys",
        ),
        ({}, {"pool_memory": "unified"}, "pool_memory='unified': an index key of several tokens"),
        (
            {"tp_size": 2, "dcp_size": 2},
            {},
            "dcp_size=2: index rows lie at the slots of their rows",
        ),
    ],
)
def test_what_such_keys_cannot_be_asked_for(
    ranks: dict[str, Any], options: dict[str, Any], said: str
) -> None:
    with pytest.raises(PlanError) as error:
        planned(ParallelLayout(**ranks), **options)
    assert str(error.value).startswith(said)


def test_a_draft_beside_them_has_rows_alone() -> None:
    drafts = SpeculativeOptions(kind="eagle", draft_tokens=2, draft_layers=1)
    made = planned(speculative=drafts)
    assert isinstance(made.draft, MHALeafRequest)
    assert isinstance(made.subsystem, QSAPoolRequest)
