"""Models of five kinds, planned, built on Acme, and used as an engine uses them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch
from acme_kv.heads import AcmeHeads
from acme_kv.indexed import AcmeIndexed
from acme_kv.latents import AcmeLatents
from torch import Tensor

from kvproto.configurator import (
    BuiltPools,
    MemoryBudget,
    ModelShape,
    ParallelLayout,
    ServingOptions,
    StateOptions,
    build,
    example_config,
    find_platform,
    plan,
)
from kvproto.protocols import Composite, KVPool, PagedAllocator, SWAComposite, require
from kvproto.reference import CORE

PAGE = 16


@dataclass(frozen=True, slots=True)
class Layer:
    """An attention layer, as far as a pool looks at it."""

    layer_id: int


def built(model: str) -> BuiltPools:
    """The model's pools on one rank of eight, with room for a few hundred tokens."""
    acme = find_platform("acme")
    asked = plan(
        ModelShape.from_hf_config(example_config(model)),
        ServingOptions(
            page_size=PAGE,
            max_total_tokens=512,
            max_running_requests=2,
            context_len=4096,
            state=StateOptions(slots=3),
            allocator_fallback="none",
        ),
        ParallelLayout(tp_size=8),
        MemoryBudget.of_caches(1 << 40),
        platform=acme.capabilities,
    )
    return build(asked, acme, CORE)


def slots_of(pools: BuiltPools, tokens: int) -> Tensor:
    """The slots of a request: all tokens but the last by a prefill, the last by a decode."""
    allocator = require(pools.allocator, PagedAllocator, for_="prefill and decode")
    none, before, after = (torch.tensor([n]) for n in (0, tokens - 1, tokens))
    prompt = allocator.alloc_extend(none, none, before, before, none - 1, tokens - 1)
    assert prompt is not None
    last = allocator.alloc_decode(after, after, prompt[-1:])
    assert last is not None
    return torch.cat([prompt, last])


def own_slots(pool: KVPool, layer_id: int, loc: Tensor) -> Tensor:
    """Where the layer's leaf keeps these tokens: windowed layers have slots of their own."""
    if isinstance(pool, SWAComposite) and pool.layers_mapping[layer_id][1]:
        return pool.translate_loc_from_full_to_swa(loc)
    return loc


def rows_for(buffer: Tensor, count: int, start: int) -> Tensor:
    """Small whole numbers, which every element type holds exactly."""
    shape = (count, *buffer.shape[1:])
    return ((torch.arange(math.prod(shape)) + start) % 97 + 1).view(shape).to(buffer.dtype)


@pytest.mark.parametrize(
    ("model", "leaf", "layer_ids"),
    [
        ("llama", AcmeHeads, (0, 31)),
        ("gpt_oss", AcmeHeads, (0, 1)),  # a windowed layer, and one of the whole context
        ("qwen3_next", AcmeHeads, (3, 47)),  # recurrent layers are between them
        ("deepseek_v3", AcmeLatents, (0, 60)),
        ("deepseek_v32", AcmeIndexed, (0, 60)),
    ],
)
def test_what_is_written_is_read(model: str, leaf: type, layer_ids: tuple[int, ...]) -> None:
    pools = built(model)
    pool = pools.pool
    assert pool is not None
    assert not pools.notes, "the core had to build nothing in Acme's place"
    loc = slots_of(pools, 20)
    written: dict[int, Tensor] = {}
    for layer_id in layer_ids:
        keys, values = pool.get_kv_buffer(layer_id)
        written[layer_id] = rows_for(keys, len(loc), layer_id)
        row = rows_for(values, len(loc), layer_id)
        pool.set_kv_buffer(Layer(layer_id), loc, written[layer_id], row)
    for layer_id, rows in written.items():
        kept_by = pool.leaf_for(layer_id)[0] if isinstance(pool, Composite) else pool
        assert type(kept_by) is leaf
        found = pool.get_key_buffer(layer_id)[own_slots(pool, layer_id, loc)]
        assert torch.equal(found, rows)


def test_index_keys_are_kept_beside_the_rows() -> None:
    pools = built("deepseek_v32")
    assert pools.views is not None
    indexer = pools.views.indexer
    assert indexer is not None
    loc = slots_of(pools, 20)
    keys = rows_for(torch.zeros(1, indexer.index_head_dim), 20, 0).to(torch.float8_e4m3fn)
    scales = torch.arange(1, 21).float()
    indexer.set_index_k_scale_buffer(60, loc, keys, scales)
    pages = (loc[::PAGE] // PAGE).unsqueeze(0)
    got = indexer.get_index_k_scale_buffer(60, torch.tensor([20]), pages, 20, 20)
    assert torch.equal(got[0], keys.view(torch.uint8))
    assert torch.equal(got[1].view(torch.float32).flatten(), scales)
