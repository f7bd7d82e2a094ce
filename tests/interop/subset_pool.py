# pyright: basic, reportMissingImports=false
"""The same writes into sglang's pools of a device subset and into ours, as one JSON object."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt.mem_cache.hisparse_memory_pool import HiSparseDSATokenToKVPool
from sglang.srt.mem_cache.memory_pool import MiniMaxSparseKVPool

from kvproto.protocols import DSALeafRequest, SparseIndexLeafRequest
from kvproto.reference import SubsetDSALeaf, SubsetSparseLeaf
from tests.interop import single_rank  # noqa: F401

SIZE, PAGE, RATIO, LAYERS = 128, 64, 3, 2


def main() -> None:
    json.dump({"latent": compared(), "by head": compared_by_head()}, sys.stdout)


def compared() -> dict[str, bool]:
    """What is the same in both once both were written to, ids without a slot among the rest."""
    request = DSALeafRequest(
        size=SIZE,
        page_size=PAGE,
        dtype=torch.bfloat16,
        layer_num=LAYERS,
        device="cpu",
        kv_lora_rank=512,
        qk_rope_head_dim=64,
        index_head_dim=128,
        host_to_device_ratio=RATIO,
    )
    theirs = HiSparseDSATokenToKVPool(**request.keywords())
    ours = SubsetDSALeaf(**request.keywords())
    draw = torch.Generator().manual_seed(5)
    placed = torch.randperm(SIZE * RATIO, generator=draw)[:100] + PAGE
    table = torch.zeros(SIZE * RATIO + PAGE + 1, dtype=torch.int64)
    table[placed] = torch.randperm(SIZE, generator=draw)[:100] + PAGE
    absent = torch.tensor([i for i in range(PAGE, PAGE + 200) if not table[i]])
    rows = torch.randn(100, 1, 576, generator=draw).to(torch.bfloat16)
    for pool in (theirs, ours):
        pool.register_mapping(table)
        for layer_id in range(LAYERS):
            layer: Any = SimpleNamespace(layer_id=layer_id, k_scale=None, v_scale=None)
            pool.set_mla_kv_buffer(layer, placed, rows[..., :512], rows[..., 512:])
            pool.set_mla_kv_buffer(
                layer,
                absent,
                rows[:1, :, :512].expand(len(absent), -1, -1),
                rows[:1, :, 512:].expand(len(absent), -1, -1),
            )
    keys = torch.randn(100, 128, generator=draw).to(torch.float8_e4m3fn)
    scales = torch.rand(100, 1, generator=draw)
    for pool in (theirs, ours):
        for layer_id in range(LAYERS):
            pool.set_index_k_scale_buffer(layer_id, placed, keys, scales)
    layers = range(LAYERS)
    index = [(p.get_index_k_with_scale_buffer(i) for i in layers) for p in (theirs, ours)]
    buffers = [[p.kv_buffer[i].view(torch.uint8) for i in layers] for p in (theirs, ours)]
    one: Any = SimpleNamespace(layer_id=1)
    read = [p.get_mla_kv_buffer(one, placed, torch.bfloat16) for p in (theirs, ours)]
    return {
        "rows": all(torch.equal(a, b) for a, b in zip(*buffers, strict=True)),
        "index keys": all(torch.equal(a, b) for a, b in zip(*index, strict=True)),
        "read back": all(torch.equal(a, b) for a, b in zip(*read, strict=True)),
        "slots of ids": torch.equal(
            *(p.translate_loc_from_full_to_hisparse_device(placed) for p in (theirs, ours))
        ),
        "slot 0 stays zero": not any(b[0].any() for both in buffers for b in both),
    }


def compared_by_head() -> dict[str, bool]:
    """The same of rows by head with index rows, of a stage that starts with a dense layer."""
    request = SparseIndexLeafRequest(
        size=SIZE,
        page_size=PAGE,
        dtype=torch.bfloat16,
        layer_num=4,
        start_layer=1,
        device="cpu",
        head_num=2,
        head_dim=64,
        idx_head_dim=32,
        dense_layer_ids=(0, 1),
        sparse_layer_ids=(2, 3, 4),
        disable_value_sparse_layer_ids=(3,),
        host_to_device_ratio=RATIO,
    )
    keywords = {k: list(v) if isinstance(v, tuple) else v for k, v in request.keywords().items()}
    theirs, ours = MiniMaxSparseKVPool(**keywords), SubsetSparseLeaf(**request.keywords())
    draw = torch.Generator().manual_seed(6)
    placed = torch.randperm(SIZE * RATIO, generator=draw)[:100] + PAGE
    table = torch.zeros(SIZE * RATIO + PAGE + 1, dtype=torch.int64)
    table[placed] = torch.randperm(SIZE, generator=draw)[:100] + PAGE
    k, v = (torch.randn(100, 2, 64, generator=draw).to(torch.bfloat16) for _ in range(2))
    index_k, index_v = (
        torch.randn(100, 1, 32, generator=draw).to(torch.bfloat16) for _ in range(2)
    )
    for pool in (theirs, ours):
        pool.register_mapping(table)
        for layer_id in range(1, 5):
            layer: Any = SimpleNamespace(layer_id=layer_id, k_scale=None, v_scale=None)
            pool.set_kv_buffer(layer, placed, k, v)
        two: Any = SimpleNamespace(layer_id=2)
        three: Any = SimpleNamespace(layer_id=3)
        pool.set_index_kv_buffer(two, placed, index_k, index_v)
        pool.set_index_k_buffer(three, placed, index_k)
    buffers = [[p.get_kv_buffer(i) for i in range(1, 5)] for p in (theirs, ours)]
    index = [(*p.get_index_kv_buffer(2), p.get_index_k_buffer(3)) for p in (theirs, ours)]
    rows = [[side for both in each for side in both] for each in buffers]
    return {
        "rows": all(torch.equal(a, b) for a, b in zip(*rows, strict=True)),
        "index rows": all(torch.equal(a, b) for a, b in zip(*index, strict=True)),
        "slots of ids": torch.equal(
            *(p.translate_loc_from_full_to_hisparse_device(placed) for p in (theirs, ours))
        ),
    }


if __name__ == "__main__":
    main()
