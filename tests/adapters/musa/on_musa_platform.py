"""The platform on an emulated `musa:0`: what is stored there is what the core stores on the CPU."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from kvproto.adapters.musa.platform import MusaPlatform, musa
from kvproto.configurator import (
    MemoryBudget,
    ParallelLayout,
    ServingOptions,
    StateOptions,
    build,
    find_platform,
    plan,
)
from kvproto.conformance import check_platform
from kvproto.protocols import (
    AllocatorRequest,
    Declined,
    DSALeafRequest,
    KVLeaf,
    LeafRequest,
    MHALeafRequest,
    MLALeafRequest,
    SlotAllocator,
    SparseIndexLeafRequest,
)
from kvproto.reference import CORE, build_reference_leaf
from tests.adapters.musa.shims import Shim, drops_the_conversion
from tests.configurator.test_plan import shape_of

# There is no Triton for an emulated device, and the first operation says so.
pytestmark = pytest.mark.filterwarnings("ignore:triton is not installed")

E4M3 = torch.float8_e4m3fn
COMMON: dict[str, Any] = {"size": 128, "page_size": 64, "layer_num": 2, "device": "musa"}
HEADS: dict[str, Any] = COMMON | {"head_num": 2, "head_dim": 16}
FP8: dict[str, Any] = {"dtype": E4M3, "quant_scheme": "fp8_scaled"}
BF16: dict[str, Any] = {"dtype": torch.bfloat16}
LATENT: dict[str, Any] = COMMON | {"kv_lora_rank": 128, "qk_rope_head_dim": 32}
INDEXED: dict[str, Any] = LATENT | {"index_head_dim": 32}
SPARSE: dict[str, Any] = HEADS | {
    "idx_head_dim": 16,
    "dense_layer_ids": (0,),
    "sparse_layer_ids": (1,),
}

REQUESTS: dict[str, LeafRequest] = {
    "heads": MHALeafRequest(**HEADS, **BF16, v_head_dim=8),
    "heads in fp8": MHALeafRequest(**HEADS, **FP8),
    "heads by page": MHALeafRequest(**HEADS, **BF16, layout="paged_nhd"),
    "heads by page in fp8": MHALeafRequest(**HEADS, **FP8, layout="paged_nhd"),
    "latents": MLALeafRequest(**LATENT, **BF16),
    "latents in fp8": MLALeafRequest(**LATENT, **FP8),
    "packed latents": DSALeafRequest(**INDEXED, dtype=E4M3, quant_scheme="dsa_fp8_packed"),
    "index rows": SparseIndexLeafRequest(**SPARSE, **BF16),
}
LOC = [5, 64, 0, -1, 190, 127]

on_each = pytest.mark.parametrize("name", REQUESTS)


@pytest.fixture
def platform() -> MusaPlatform:
    found = musa()
    assert isinstance(found, MusaPlatform)
    return found


def both(platform: MusaPlatform, name: str) -> tuple[Any, Any]:
    """The leaf on the device, and the core's in host memory."""
    request = REQUESTS[name]
    leaf, twin = platform.build_leaf(request), build_reference_leaf(replace(request, device="cpu"))
    assert isinstance(leaf, KVLeaf), leaf
    return leaf, twin


def rows(leaf: Any, n: int) -> tuple[Tensor, Tensor]:
    """Keys and values, on the CPU, with numbers past the end of fp8 among them."""
    made = torch.Generator().manual_seed(9)
    if leaf.pool_traits.kind in ("mla", "dsa"):
        width = leaf.kv_lora_rank + leaf.qk_rope_head_dim
        latent = torch.randn(n, 1, width, generator=made) * 300
        return latent, latent
    shape = n, leaf.head_num
    k = torch.randn(*shape, leaf.head_dim, generator=made) * 300
    return k, torch.randn(*shape, leaf.v_head_dim, generator=made)


def write(leaf: Any, loc: list[int], layer_id: int = 1) -> None:
    device = leaf.k_buffer[0].device if hasattr(leaf, "k_buffer") else leaf.kv_buffer[0].device
    k, v = (given.to(device) for given in rows(leaf, len(loc)))
    leaf.set_kv_buffer(None, torch.tensor(loc, device=device), k, v, layer_id_override=layer_id)


def storage(leaf: Any) -> list[Tensor]:
    """The bytes of every buffer, on the CPU."""
    latent = hasattr(leaf, "kv_buffer")
    buffers = leaf.kv_buffer if latent else [*leaf.k_buffer, *leaf.v_buffer]
    return [buffer.view(torch.uint8).to("cpu") for buffer in buffers]


def same(leaf: Any, twin: Any) -> bool:
    pairs = zip(storage(leaf), storage(twin), strict=True)
    return all(torch.equal(here, there) for here, there in pairs)


def test_it_is_found_by_its_device() -> None:
    assert find_platform("musa").capabilities.device_type == "musa"
    assert find_platform().name == "musa"


@on_each
def test_rows_are_stored_moved_and_copied_as_in_host_memory(
    platform: MusaPlatform, name: str
) -> None:
    leaf, twin = both(platform, name)
    for each in (leaf, twin):
        write(each, LOC)
    assert any(buffer.any() for buffer in storage(leaf))
    assert same(leaf, twin)
    for each, device in ((leaf, "musa"), (twin, "cpu")):
        targets, sources = (torch.tensor(ids, device=device) for ids in ([6, 65, 0], [5, 6, 64]))
        each.move_kv_cache(targets, sources)
    assert same(leaf, twin)
    for each, device in ((leaf, "musa"), (twin, "cpu")):
        copy = each.get_cpu_copy(torch.tensor([65, 190], device=device))
        each.load_cpu_copy(copy, torch.tensor([66, 2], device=device))
    assert same(leaf, twin)


@on_each
def test_read_doors_are_views_on_the_device(platform: MusaPlatform, name: str) -> None:
    leaf, twin = both(platform, name)
    for each in (leaf, twin):
        write(each, LOC)
    for door, there in ((leaf.get_key_buffer, twin.get_key_buffer),):
        shown = door(1)
        assert (shown.device, shown.dtype) == (torch.device("musa:0"), leaf.dtype)
        assert torch.equal(shown.view(torch.uint8).to("cpu"), there(1).view(torch.uint8))
        shown.view(torch.uint8).fill_(1)
        assert bool(storage(leaf)[1].eq(1).all())


@pytest.mark.parametrize("name", ["heads", "heads in fp8", "heads by page", "heads by page in fp8"])
def test_attention_finds_the_page_size_in_the_shape(platform: MusaPlatform, name: str) -> None:
    """`[-1, page, heads, dim]` of what a door gives is a view of the storage."""
    leaf, _ = both(platform, name)
    for door, width in (
        (leaf.get_key_buffer, leaf.head_dim),
        (leaf.get_value_buffer, leaf.v_head_dim),
    ):
        k_cache = door(1).view(-1, 64, leaf.head_num, width)
        assert (k_cache.shape[1], k_cache.data_ptr()) == (64, door(1).data_ptr())
        if "by page" in name:
            assert door(1).shape == k_cache.shape


def test_a_write_waits_for_nothing(platform: MusaPlatform) -> None:
    leaf, _ = both(platform, "heads in fp8")
    with Counting() as counting:
        write_on_device(leaf)
        assert isinstance(platform.build_leaf(REQUESTS["heads by page in fp8"]), KVLeaf)
    assert counting.waits == []
    with Counting() as counting:
        assert isinstance(MusaPlatform().build_leaf(REQUESTS["latents in fp8"]), KVLeaf)
    assert len(counting.waits) == 2, "read back once, bytes and numbers"


def write_on_device(leaf: Any) -> None:
    row, loc = torch.ones(1, 2, 16, device="musa"), torch.ones(1, dtype=torch.int64, device="musa")
    leaf.set_kv_buffer(None, loc, row, row, layer_id_override=0)


def test_a_shim_that_stores_zeros_is_declined(platform: MusaPlatform) -> None:
    with Shim(drops_the_conversion):
        answer = platform.build_leaf(REQUESTS["heads in fp8"])
        leaf: Any = platform.core.build_leaf(REQUESTS["heads in fp8"])
        write_on_device(leaf)
    assert isinstance(answer, Declined)
    assert (
        "heads: stored 1.0 as 0x00, which is 0x38 in float8_e4m3fn: update torch_musa"
        in answer.reason
    )
    assert not any(buffer.any() for buffer in storage(leaf)), "what the check is for"


def test_slots_are_lent_on_the_device(platform: MusaPlatform) -> None:
    asked = AllocatorRequest(kind="paged", size=256, page_size=64, device="musa")
    built = platform.build_allocator(asked)
    assert isinstance(built, SlotAllocator)
    account: Any = built
    lent = account.alloc(128)
    assert lent.device == torch.device("musa:0")
    assert lent.to("cpu").tolist() == list(range(64, 192))
    account.free(lent)
    assert account.available_size() == 256


KEPT = ["alloc-page64", "mha-fp8-e4m3fn-page16", "dsa-packed-page64"]


def test_the_kits_laws_are_kept_on_the_device(platform: MusaPlatform) -> None:
    report = check_platform(platform, specs=KEPT, device="musa:0")
    assert not report.failures, [result.detail for result in report.failures]
    assert (report.declined, report.device) == ((), "musa:0")
    assert sum(result.status == "passed" for result in report.results) > 80


@pytest.mark.parametrize("model", ["qwen3_moe", "deepseek_v3", "gpt_oss", "qwen3_next"])
def test_a_model_is_built_in_pages_of_64(platform: MusaPlatform, model: str) -> None:
    options = ServingOptions(
        kv_cache_dtype="fp8_e4m3",
        max_total_tokens=256,
        max_running_requests=2,
        context_len=128,
        swa_full_tokens_ratio=1.0,
        state=StateOptions(slots=3),
    )
    budget, facts = MemoryBudget.of_caches(1 << 30), platform.capabilities
    made = plan(shape_of(model), options, ParallelLayout(tp_size=8), budget, platform=facts)
    pools = build(made, platform, CORE)
    pool: Any = pools.pool
    assert (pool.page_size, pool.get_key_buffer(pool.start_layer + 3).device.type) == (64, "musa")


class Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch has no types here
    """Names the operations that wait for a device."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # as above
        self.waits: list[str] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        from_device = bool(args) and isinstance(args[0], Tensor) and args[0].device.type == "musa"
        to_host = isinstance(made, Tensor) and made.device.type == "cpu"
        if from_device and (to_host or func is torch.ops.aten._local_scalar_dense.default):
            self.waits.append(str(func))
        return made
