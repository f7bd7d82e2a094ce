# pyright: basic, reportMissingImports=false
"""sglang's NPU pool of latent rows with index keys, plain and packed, and ours."""

from __future__ import annotations

from typing import Any

import torch
from sglang.srt.hardware_backend.npu.memory_pool_npu import NPUMLATokenToKVPool

from kvproto.adapters.npu.dsa import NPUDSALeaf, NPUScaledDSALeaf
from tests.interop import single_rank  # noqa: F401
from tests.interop.npu_latent import native
from tests.interop.npu_scripts import COMMON, at, bytes_of, descriptors, door, layers, rows
from tests.interop.side_by_side import Scripts, layer

__all__ = ["DSA", "DSA_PACKED"]

FP8 = torch.float8_e4m3fn
KEYED = COMMON | {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "index_head_dim": 128}
KEYED |= {"layer_num": 4, "end_layer": 7, "indexer_layer_ids": [4, 6]}

DSA = Scripts(NPUMLATokenToKVPool, NPUDSALeaf, **KEYED)
"""Index keys of the rows' own type."""
DSA_PACKED = Scripts(
    NPUMLATokenToKVPool, NPUScaledDSALeaf, **KEYED | {"dtype": FP8, "kv_cache_dim": 656}
)
"""Rows of 656 bytes, and scales beside the index keys."""


def planes(pool: Any) -> list[torch.Tensor]:
    """Latents, rope, index keys of the layers that have some, and scales where there are some."""
    given = native(pool)
    held = [given.k, given.v, given.index_k]
    return held if given.index_scales is None else [*held, given.index_scales]


@DSA.on("index keys written")
def keys_written(pool: Any) -> object:
    for index in (torch.int32, torch.int64):
        for place, i in enumerate((4, 6)):
            slots = at(128, 300 + place, 639, dtype=index)
            pool.set_index_k_buffer(i, slots, rows(3, 1, 128, i + slots.element_size()))
    return bytes_of(planes(pool))


@DSA_PACKED.on("scales of index keys written")
def scales_written(pool: Any) -> object:
    for i in (4, 6):
        pool.set_index_k_scale_buffer(i, at(128, 300), torch.tensor([0.5, i], device="npu"))
    return bytes_of(planes(pool)[3:])


@DSA_PACKED.on("quantised index keys written")
def quantised_keys_written(pool: Any) -> object:
    """Whether the keys that were given are where they belong."""
    keys = rows(1, 1, 128, 3).to(FP8)
    pool.set_index_k_buffer(6, at(300), keys)
    stored = planes(pool)[2][1].view(torch.uint8).view(640, 128)[300]
    return stored.equal(keys.view(torch.uint8).flatten())


@DSA.on("rows written")
def rows_written(pool: Any) -> object:
    for i in layers(pool):
        pool.set_kv_buffer(layer(i), at(128, 300), rows(2, 1, 576, i), None)
    return bytes_of(planes(pool))


@DSA_PACKED.on("packed rows written")
def packed_written(pool: Any) -> object:
    """Where a record has latents that are not 0, whether rope is behind them, and the scales."""
    latent, rope = torch.zeros(1, 1, 512, device="npu").bfloat16(), rows(1, 1, 64, 1)
    latent[..., 128], latent[..., 300] = 448.0, -896.0
    pool.set_kv_buffer(layer(5), at(300), latent, rope)
    record = planes(pool)[0][2].view(torch.uint8).view(640, 656)[300].cpu()
    told = record[:512].view(FP8).float().nonzero().flatten().tolist()
    behind = record[512:640].view(torch.bfloat16).equal(rope.cpu().flatten())
    return [told, behind, record[640:].view(torch.float32).tolist()]


@DSA.on("read doors")
@DSA_PACKED.on("read doors")
def read(pool: Any) -> object:
    whole = planes(pool)
    keys = [door(pool.get_index_k_buffer(i), whole[2]) for i in (4, 6)]
    return [*keys, *(door(pool.get_key_buffer(i), whole[0]) for i in layers(pool))]


@DSA_PACKED.on("read door of scales")
def read_scales(pool: Any) -> object:
    return [door(pool.get_index_k_scale_buffer(i), planes(pool)[3]) for i in (4, 6)]


@DSA.on("descriptors of rows and of index keys")
@DSA_PACKED.on("descriptors of rows and of index keys")
def every_descriptor(pool: Any) -> object:
    """Every entry with bytes, in order; sglang's lists index keys among the rows, too."""
    entries = zip(*pool.get_contiguous_buf_infos(), strict=True)
    state = zip(*pool.get_state_buf_infos(), strict=True)
    distinct = dict.fromkeys(entry for entry in (*entries, *state) if entry[1])
    return descriptors(tuple(map(list, zip(*distinct, strict=True))), planes(pool))


@DSA.on("entries of index keys among those of rows")
@DSA_PACKED.on("entries of index keys among those of rows")
def twice(pool: Any) -> object:
    """How many entries are exported twice."""
    told = {*pool.get_contiguous_buf_infos()[0]}
    return len(told & {ptr for ptr in pool.get_state_buf_infos()[0] if ptr})


@DSA.on("sizes")
@DSA_PACKED.on("sizes")
def sizes(pool: Any) -> object:
    told = pool.get_kv_size_bytes()
    return int(sum(told) if isinstance(told, tuple) else told)
