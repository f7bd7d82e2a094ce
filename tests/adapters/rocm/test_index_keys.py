"""Latent rows without scales, and index keys in tiles: bytes by a permutation of their own."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from kvproto.configurator import (
    MemoryBudget,
    ParallelLayout,
    PlanError,
    ServingOptions,
    build,
    plan,
    plan_from_json,
    plan_to_json,
)
from kvproto.conformance.deployment import Watched
from kvproto.conformance.oracle import peek
from kvproto.protocols import DSALeafRequest, peer_differences
from kvproto.reference import CORE
from tests.adapters.rocm.leaves import FN, FNUZ, PLATFORMS, built, declined, numbers, on_each
from tests.configurator.test_plan import ONE, shape_of

PAGE, WIDTH, PAGES = 64, 128, 3


def asked(dtype: torch.dtype, **changes: Any) -> DSALeafRequest:
    """Raw rows of 512 and 64, and index keys of 128, in pages of 64."""
    fields: dict[str, Any] = {
        "size": (PAGES - 1) * PAGE,
        "page_size": PAGE,
        "dtype": dtype,
        "quant_scheme": "fp8_scaled",
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
        "index_head_dim": WIDTH,
        "index_dtype": dtype,
        "index_layout": "preshuffled",
        "layer_num": 2,
        "start_layer": 1,
        "device": "cpu",
    }
    return DSALeafRequest(**(fields | changes))


def shuffled(keys: Tensor, page: int) -> Tensor:
    """Keys `[slots, width]` as bytes of pages, byte after byte: the loops of a matrix instruction.

    It takes 16 keys at a time, of each 16 bytes, then the next 16 bytes of the same keys.
    """
    placed: list[Tensor] = []
    for start in range(0, keys.shape[0], page):
        for down in range(start, start + page, 16):
            for along in range(0, keys.shape[1], 16):
                placed += [keys[key, along : along + 16] for key in range(down, down + 16)]
    return torch.cat(placed).view(-1, page * keys.shape[1])


def keys_of(slots: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """All bytes but the one that is NaN in e4m3fnuz, in no order, and a scale each."""
    made = torch.Generator().manual_seed(5)
    raw = torch.randint(0, 256, (slots, WIDTH), generator=made, dtype=torch.int32).to(torch.uint8)
    return raw.clamp(max=0x7E).view(dtype), torch.rand(slots, generator=made) + 0.5


@on_each
def test_pages_hold_tiles_of_keys_then_scales(dtype: torch.dtype) -> None:
    leaf = built(PLATFORMS[dtype], asked(dtype))
    keys, scales = keys_of(PAGES * PAGE, dtype)
    loc = torch.arange(PAGES * PAGE)
    leaf.set_index_k_scale_buffer(1, loc, keys, scales)
    held, kept = keys.view(torch.uint8).clone(), scales.clone()
    held[0], kept[0] = 0, 0.0
    pages = leaf.get_index_k_with_scale_buffer(1)
    assert torch.equal(pages[:, : PAGE * WIDTH], shuffled(held, PAGE))
    assert torch.equal(pages[:, PAGE * WIDTH :].contiguous().view(torch.float32).flatten(), kept)
    assert not leaf.get_index_k_with_scale_buffer(2).any()


@on_each
def test_what_is_gathered_moved_and_copied_is_in_rows_again(dtype: torch.dtype) -> None:
    leaf = built(PLATFORMS[dtype], asked(dtype))
    keys, scales = keys_of(PAGES * PAGE, dtype)
    leaf.set_index_k_scale_buffer(1, torch.arange(PAGES * PAGE), keys, scales)
    lens, table = torch.tensor([70, 3]), torch.tensor([[2, 1], [1, 0]])
    got, got_scales = leaf.get_index_k_scale_buffer(1, lens, table, 73, 70)
    slots = [*range(128, 192), *range(64, 70), 64, 65, 66]
    assert torch.equal(got, keys.view(torch.uint8)[slots])
    assert torch.equal(got_scales.view(torch.float32).flatten(), scales[slots])
    copy = leaf.get_cpu_copy(torch.tensor([90, 17]))
    leaf.move_kv_cache(torch.tensor([130, 5]), torch.tensor([65, 130]))
    leaf.load_cpu_copy(copy, torch.tensor([66, 67]))
    moved = keys.view(torch.uint8).clone()
    moved[0] = 0
    moved[[130, 5, 66, 67]] = keys.view(torch.uint8)[[65, 130, 90, 17]]
    pages = leaf.get_index_k_with_scale_buffer(1)
    assert torch.equal(pages[:, : PAGE * WIDTH], shuffled(moved, PAGE))


@on_each
def test_every_byte_of_a_page_is_at_its_declared_address(dtype: torch.dtype) -> None:
    leaf = built(PLATFORMS[dtype], asked(dtype))
    keys, scales = keys_of(PAGES * PAGE, dtype)
    leaf.set_index_k_scale_buffer(2, torch.arange(PAGES * PAGE), keys, scales)
    _, index = leaf.buffer_regions()
    assert index.field("index_key").element == str(dtype).removeprefix("torch.")
    for slot in (1, 15, 16, 63, 64, 191):
        page, token = divmod(slot, PAGE)
        for i in (0, 1, 15, 16, 17, 127):
            at = index.address(2, page, token, i, field="index_key")
            assert peek(at, 1)[0] == int(keys.view(torch.uint8)[slot, i])
        at = index.address(2, page, token, field="scale")
        assert peek(at, 4) == bytes(scales[slot : slot + 1].view(torch.uint8).numpy())


@on_each
def test_rows_are_576_numbers_without_a_scale(dtype: torch.dtype) -> None:
    leaf = built(PLATFORMS[dtype], asked(dtype))
    row = numbers(dtype).nan_to_num(1.0).repeat(3)[:576].view(1, 1, 576)
    leaf.set_mla_kv_buffer(
        SimpleNamespace(layer_id=1), torch.tensor([77]), row[..., :512], row[..., 512:]
    )
    door = leaf.get_key_buffer(1)
    assert (door.shape, door.dtype) == ((PAGES * PAGE, 1, 576), dtype)
    assert torch.equal(door[77].float(), row[0])
    assert not door.view(torch.uint8)[:77].any()
    assert (leaf.pool_traits.quant_scheme, leaf.pool_traits.index_scheme) == (
        "fp8_scaled",
        "dsa_fp8_scale_preshuffled",
    )


def test_layouts_and_numbers_are_told_apart_by_peers() -> None:
    fnuz, fn = (built(PLATFORMS[d], asked(d)).buffer_regions() for d in (FNUZ, FN))
    assert len(peer_differences(fnuz, fn)) == 2
    rows = asked(FN, page_size=1, index_layout="token_rows")
    assert peer_differences(built(PLATFORMS[FN], rows).buffer_regions(), fn)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"index_layout": "token_rows"}, "in pages of 64 index keys: .* ask for 'preshuffled'"),
        ({"index_layout": "token_rows", "page_size": 8}, "ask for pages of 1 or 16 keys"),
        ({"index_dtype": FN}, "index_dtype=torch.float8_e4m3fn: the device's numbers are"),
        ({"index_dtype": None}, "index_dtype=torch.float8_e4m3fn: the device's numbers are"),
        ({"dtype": FN, "index_dtype": FNUZ}, "^dtype=torch.float8_e4m3fn"),
        (
            {"dtype": FN, "quant_scheme": "dsa_fp8_packed"},
            "'dsa_fp8_packed': attention reads bare latents",
        ),
    ],
)
def test_what_kernels_do_not_read_is_declined(changes: dict[str, Any], said: str) -> None:
    reason = declined(PLATFORMS[FNUZ], asked(**({"dtype": FNUZ} | changes)))
    assert re.search(said, reason), reason


@pytest.mark.parametrize("page", [8, 20])
def test_pages_that_are_no_whole_tiles_are_refused_where_they_are_planned(page: int) -> None:
    budget, facts = MemoryBudget.of_caches(1 << 40), PLATFORMS[FN].capabilities
    options = ServingOptions(page_size=page)
    with pytest.raises(PlanError, match=rf"tiles of 16, and a page has {page}; .*multiple of 16"):
        plan(shape_of("deepseek_v32"), options, ONE, budget, platform=facts)
    with pytest.raises(ValueError, match=f"{page} keys of index_head_dim=128 on a page"):
        asked(FN, page_size=page, size=2 * page)


@on_each
@pytest.mark.parametrize(
    ("page", "lies"), [(None, "preshuffled"), (32, "preshuffled"), (1, "rows")]
)
def test_a_model_is_planned_and_built_as_the_device_reads_it(
    dtype: torch.dtype, page: int | None, lies: str
) -> None:
    options = ServingOptions(
        page_size=page, kv_cache_dtype="fp8_e4m3", max_total_tokens=128, context_len=128
    )
    facts, budget = PLATFORMS[dtype].capabilities, MemoryBudget.of_caches(1 << 50)
    ranks = ParallelLayout(tp_size=8, pp_size=8)
    made = plan(shape_of("deepseek_v32"), options, ranks, budget, platform=facts)
    assert plan_from_json(plan_to_json(made)) == made
    leaf: Any = build(made, Watched(PLATFORMS[dtype], "cpu"), CORE).pool
    assert (leaf.page_size, leaf.kv_cache_dim, leaf.dtype) == (page or 64, 576, dtype)
    assert ("preshuffled" in leaf.pool_traits.index_scheme) is (lies == "preshuffled")
    elements = [field.element for region in leaf.buffer_regions() for field in region.fields]
    assert set(elements) == {str(dtype).removeprefix("torch."), "float32"}
