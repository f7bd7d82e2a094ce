"""Every model's plan is built, on the CPU and without a byte, and holds what was planned."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from kvproto.configurator import BuildError, SpeculativeOptions, StateOptions, build
from kvproto.protocols import (
    AllocatorRequest,
    BufferRegion,
    Composite,
    DeclaresRegions,
    Declined,
    IndexerCapable,
    KVLeaf,
    LeafRequest,
    MHALeafRequest,
    MLALatent,
    PlatformCapabilities,
    SlotAllocator,
    StateRequestPool,
    SWAComposite,
    bytes_of_pool,
    supports,
)
from kvproto.reference import CORE, MHALeaf, ReferencePlatform, TokenAllocator, build_reference_leaf
from kvproto.reference.build_allocator import build_reference_allocator
from tests.configurator.test_plan import PLANNED, planned, shape_of

CPU = PlatformCapabilities(
    device_type="cpu", supports_triton=False, supports_graph_capture=False, fp8_variant="e4m3fn"
)
ON_CPU = ReferencePlatform("cpu", CPU)
NOWHERE = ReferencePlatform("meta", replace(CPU, device_type="meta"))


def small(name: str, **options: Any) -> Any:
    """A plan of a few pages and slots."""
    tokens = 2048 if shape_of(name).window else 128
    few = StateOptions(slots=3)
    asked: dict[str, Any] = {"page_size": 64, "max_total_tokens": tokens, "state": few}
    asked["swa_full_tokens_ratio"] = 1.0
    return planned(name, **(asked | options))


def described(regions: tuple[BufferRegion, ...]) -> int:
    return sum(len(r.bases) * r.page_count * r.bytes_per_page for r in regions)


@pytest.mark.parametrize("name", PLANNED)
def test_every_model_is_built_without_a_byte(name: str) -> None:
    made = build(planned(name, page_size=64), NOWHERE, CORE)
    assert made.notes == ()
    assert made.plan.pool is not None
    assert made.pool is not None
    assert made.views is not None
    assert supports(made.pool, DeclaresRegions)
    assert described(made.pool.buffer_regions()) == bytes_of_pool(made.plan.pool)


@pytest.mark.parametrize("name", ["gpt_oss", "deepseek_v32", "qwen3_next", "falcon_h1", "llama"])
def test_pools_work_at_once(name: str) -> None:
    made = build(small(name, model_dtype="float16"), ON_CPU, CORE)
    assert made.pool is not None
    assert made.views is not None
    slots = made.allocator.alloc(64)
    assert slots is not None
    row = made.request_pool.req_to_token[1]
    made.request_pool.write((1, slice(0, 64)), slots.to(torch.int32))
    assert row[:64].tolist() == slots.tolist()
    assert (made.views.swa is not None) == (name == "gpt_oss")
    assert (made.views.indexer is not None) == (name == "deepseek_v32")
    assert (made.views.latent is not None) == (name == "deepseek_v32")
    assert (made.state is not None) == (name in ("qwen3_next", "falcon_h1"))
    if made.state is not None:
        assert isinstance(made.request_pool, StateRequestPool)
        assert made.request_pool.mamba_pool is made.state
    assert made.views.transfer is not None


def test_views_are_the_pool_itself() -> None:
    made = build(small("deepseek_v32"), ON_CPU, CORE)
    assert made.views is not None
    indexer: object = made.views.indexer
    assert indexer is made.pool
    assert isinstance(made.pool, IndexerCapable)
    assert isinstance(made.pool, MLALatent)


def test_the_draft_is_a_leaf_of_its_own() -> None:
    spec = SpeculativeOptions(kind="eagle", draft_tokens=2, draft_layers=1)
    made = build(small("llama", speculative=spec), ON_CPU, CORE)
    assert isinstance(made.draft, KVLeaf)
    assert (made.draft.layer_num, made.draft.size) == (1, made.allocator.size)


class ForeignLeaf:
    """A vendor's pool, with no base class of ours, that hands everything on."""

    def __init__(self, leaf: KVLeaf) -> None:
        self.leaf = leaf
        self.size, self.page_size, self.dtype = leaf.size, leaf.page_size, leaf.dtype
        self.device, self.store_dtype = leaf.device, leaf.store_dtype
        self.layer_num, self.start_layer = leaf.layer_num, leaf.start_layer
        self.end_layer = leaf.end_layer

    def get_key_buffer(self, layer_id: int, /) -> torch.Tensor:
        return self.leaf.get_key_buffer(layer_id)

    def get_value_buffer(self, layer_id: int, /) -> torch.Tensor:
        return self.leaf.get_value_buffer(layer_id)

    def get_kv_buffer(self, layer_id: int, /) -> tuple[torch.Tensor, torch.Tensor]:
        return self.leaf.get_kv_buffer(layer_id)

    def register_layer_transfer_counter(self, counter: Any, /) -> None:
        self.leaf.register_layer_transfer_counter(counter)

    def set_kv_buffer(self, layer: Any, loc_info: Any, cache_k: Any, cache_v: Any) -> None:
        self.leaf.set_kv_buffer(layer, loc_info, cache_k, cache_v)


class ForeignAllocator(TokenAllocator):
    """A vendor's own allocator."""


class Vendor:
    """A platform whose leaves and allocators are its own."""

    name = "acme"
    capabilities = CPU

    def __init__(self) -> None:
        self.leaves: list[ForeignLeaf] = []
        self.asked: list[LeafRequest] = []

    def build_leaf(self, request: LeafRequest, /) -> Any:
        self.asked.append(request)
        leaf = build_reference_leaf(request)
        assert not isinstance(leaf, Declined)
        self.leaves.append(ForeignLeaf(leaf))
        return self.leaves[-1]

    def build_allocator(self, request: AllocatorRequest, /) -> SlotAllocator | Declined:
        if request.page_size > 1:
            return Declined("no pages here")
        return ForeignAllocator(request.size, torch.int64, request.device, None, request.need_sort)


def test_a_vendor_has_its_leaves_and_allocators_at_every_level() -> None:
    vendor = Vendor()
    made = build(small("gpt_oss", page_size=1), vendor, CORE)
    assert isinstance(made.pool, SWAComposite)
    assert [made.pool.full_kv_pool, made.pool.swa_kv_pool] == vendor.leaves
    pair: Any = made.allocator
    assert type(pair.full_attn_allocator) is type(pair.swa_attn_allocator) is ForeignAllocator
    assert made.notes == ()
    hybrid = Vendor()
    over: Any = build(small("qwen3_next", page_size=1), hybrid, CORE)
    assert over.pool.full_kv_pool is hybrid.leaves[0]
    assert type(over.allocator) is ForeignAllocator


def test_an_allocator_that_is_declined_is_the_cores_and_says_so() -> None:
    made = build(small("llama"), Vendor(), CORE)
    assert made.notes == (
        "paged allocator of 128 slots by the core: platform 'acme' declined it (no pages here)",
    )


def test_an_allocator_falls_back_only_where_the_request_says_so() -> None:
    own = small("llama", allocator_fallback="none")
    assert own.allocator.fallback == "none"
    with pytest.raises(BuildError, match=r"^platform 'acme' declined: no pages here$"):
        build(own, Vendor(), CORE)
    made = build(small("llama", page_size=1, allocator_fallback="none"), Vendor(), CORE)
    assert type(made.allocator) is ForeignAllocator
    pair = small("gpt_oss", allocator_fallback="none")
    with pytest.raises(BuildError, match="the full side of a window pair: no pages here"):
        build(pair, Vendor(), CORE)


class RowsOnly(Vendor):
    """A platform whose leaves have rows, and that has nothing to say of others."""

    def build_leaf(self, request: LeafRequest, /) -> Any:
        return super().build_leaf(request) if request.layer_num else Declined("no layers, no leaf")


@pytest.mark.parametrize(("name", "size"), [("bamba", 128), ("mistral", 2048)])
def test_a_leaf_without_a_layer_is_the_cores_where_the_platform_declines(
    name: str, size: int
) -> None:
    # An all-window pair numbers its window slots, a model of states alone one slot a token.
    vendor = RowsOnly()
    made = build(small(name), vendor, CORE)
    assert made.notes[0] == (
        f"MHALeafRequest of 0 layers and {size} slots by the core: platform 'acme' declined it "
        "(no layers, no leaf)"
    )
    assert isinstance(made.pool, Composite)
    assert [type(leaf) for role, leaf in made.pool.leaves() if role == "full"] == [MHALeaf]
    assert len(vendor.leaves) == (name == "mistral")


class Faulty(Vendor):
    """A platform that builds something else than was asked."""

    def __init__(self, **changed: Any) -> None:
        super().__init__()
        self.changed = changed

    def build_leaf(self, request: LeafRequest, /) -> Any:
        return super().build_leaf(replace(request, **self.changed))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"size": 256}, "size is 256, asked was 128"),
        ({"dtype": torch.float16}, "dtype is torch.float16, asked was torch.bfloat16"),
        ({"start_layer": 1}, "start_layer is 1, asked was 0; end_layer is 33, asked was 32"),
    ],
)
def test_a_leaf_that_holds_something_else_is_refused(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(BuildError, match=r"on platform 'acme'.*ForeignLeaf") as error:
        build(small("llama"), Faulty(**changed), CORE)
    assert said in str(error.value)


def test_an_allocator_that_is_none_is_refused_with_its_members() -> None:
    class Empty(Vendor):
        def build_allocator(self, request: AllocatorRequest, /) -> Any:
            return object()

    for name in ("llama", "gpt_oss"):
        with pytest.raises(BuildError, match="platform 'acme' needs SlotAllocator") as error:
            build(small(name, page_size=1), Empty(), CORE)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"size": 512}, "PageAllocator: size is 512, asked was 128"),
        ({"page_size": 32}, "PageAllocator: page_size is 32, asked was"),
    ],
)
def test_an_allocator_of_other_slots_is_refused(changed: dict[str, Any], said: str) -> None:
    class Generous(Vendor):
        def build_allocator(self, request: AllocatorRequest, /) -> Any:
            return build_reference_allocator(replace(request, **changed))

    with pytest.raises(BuildError, match=r"^paged allocator of platform 'acme': build_al") as error:
        build(small("llama"), Generous(), CORE)
    assert said in str(error.value)


def test_a_layout_that_was_not_built_is_refused() -> None:
    class Dreamer(Vendor):
        def build_leaf(self, request: LeafRequest, /) -> Any:
            assert isinstance(request, MHALeafRequest)
            return build_reference_leaf(replace(request, layout="nhd"))

    with pytest.raises(BuildError, match="layout is nhd, asked was hnd"):
        build(small("llama", layout="hnd"), Dreamer(), CORE)


def test_a_leaf_that_is_declined_ends_the_build() -> None:
    class Picky(Vendor):
        def build_leaf(self, request: LeafRequest, /) -> Any:
            return Declined(f"no rows of {request.dtype}")

    with pytest.raises(BuildError) as error:
        build(small("gpt_oss"), Picky(), CORE)
    assert str(error.value) == (
        "platform 'acme' declined: the full leaf of a window pair: no rows of torch.bfloat16"
    )


def test_what_is_no_leaf_is_refused_with_its_members() -> None:
    class Empty(Vendor):
        def build_leaf(self, request: LeafRequest, /) -> Any:
            return object()

    with pytest.raises(BuildError, match="MHALeafRequest on platform 'acme' needs KVLeaf"):
        build(small("llama"), Empty(), CORE)
