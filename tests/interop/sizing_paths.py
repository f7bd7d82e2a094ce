# pyright: basic, reportMissingImports=false
"""What sglang decides of plans without rows, device subsets and rings, as one JSON object.

Run in `.interop-venv`; what its code reads of a running server is that of `sizing`.
"""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt.mem_cache import (
    deepseek_v4_memory_pool,
    kv_cache_configurator,
    page_interleave,
)
from sglang.srt.mem_cache.allocator.swa import SWATokenToKVPoolAllocator
from sglang.srt.mem_cache.base_swa_memory_pool import BaseSWAKVPool
from sglang.srt.mem_cache.memory_pool import ReqToTokenPool
from sglang.srt.mem_cache.sparsity import factory
from sglang.srt.model_executor import pool_configurator
from sglang.srt.runtime_context import get_parallel

from tests.interop import sizing
from tests.interop.sizing_cases import CASES, SizingCase
from tests.interop.sizing_path_cases import RINGS, SHARDS, SUBSETS, RingCase, ShardCase, SubsetCase


def main() -> None:
    found = {
        "refused": {case.name: refused(case) for case in CASES},
        "subsets": {case.name: subset(case) for case in SUBSETS},
        "shards": {case.name: shards(case) for case in SHARDS},
        "rings": {case.name: ring(case) for case in RINGS},
    }
    json.dump(found, sys.stdout)


def refused(case: SizingCase) -> str | None:
    """Why its pool family keeps rows; None where it may keep none."""
    server = sizing._server(case)
    vars(server["get_schedule"])["prefill_only_disable_kv_cache"] = True
    vars(server["get_exec"].kernel)["attention_backend"] = "fa3"
    _patch(kv_cache_configurator, server)
    model = sizing._model_config(case, case.model)
    kvc = sizing._configurator(case, model)
    kinds = (
        kv_cache_configurator.is_deepseek_dsa(model.hf_config),
        kv_cache_configurator.is_deepseek_v4(model.hf_config),
    )
    platform = SimpleNamespace(is_out_of_tree=lambda: False)
    validate = kv_cache_configurator.KVCacheConfigurator
    try:
        validate._validate_prefill_only_disable_kv_cache_pool_family(kvc, *kinds, platform)
    except RuntimeError as error:
        return str(error).split("is not supported for ")[1].split(". ")[0]
    return None


def subset(case: SubsetCase) -> dict[str, int]:
    """What a device slot costs, with all ids that it stands for, and how many there are."""
    of = SizingCase(
        model=case.model,
        kv_dtype=case.kv_dtype,
        prefix_cache=False,
        tp=case.tp,
        draft_kind="eagle" if case.draft_layers else None,
        draft_layers=case.draft_layers,
    )
    get_parallel().override_permanently(
        attn_tp_size=case.tp,
        attn_dcp_size=1,
        attn_cp_size=1,
        pp_size=1,
        enable_cp_tp_group_sharing=False,
        enable_dsa_cache_layer_split=False,
        enable_kv_cache_sharding=False,
    )
    server = sizing._server(of)
    given = json.dumps({"host_to_device_ratio": case.ratio})
    vars(server["get_memory"]).update(enable_hisparse=True, hisparse_config=given)
    for module in (pool_configurator, kv_cache_configurator, factory):
        _patch(module, server)
    kvc = sizing._configurator(of, sizing._model_config(of, of.model))
    kvc.server_args.enable_hisparse = True
    made = pool_configurator.create_memory_pool_configurator(kvc)
    tokens = made.calculate_pool_sizes(of.budget, of.page_size).max_total_num_tokens
    return {"cell": made._cell_size, "tokens": tokens}


def shards(case: ShardCase) -> dict[str, int]:
    """Scratch to gather into, what a token costs beside it, and a rank's tokens."""
    of = SizingCase(model=case.model, kv_dtype=case.kv_dtype, tp=case.tp)
    get_parallel().override_permanently(
        attn_tp_size=case.tp,
        attn_dcp_size=1,
        attn_cp_size=1,
        pp_size=1,
        enable_cp_tp_group_sharing=False,
        enable_dsa_cache_layer_split=False,
        enable_kv_cache_sharding=True,
    )
    page_interleave.get_kv_shard_group_info = lambda _kvc: (0, case.tp)
    server = sizing._server(of)
    for module in (pool_configurator, kv_cache_configurator, page_interleave):
        _patch(module, server)
    kvc = sizing._configurator(of, sizing._model_config(of, of.model))
    made = pool_configurator.create_memory_pool_configurator(kvc)
    tokens = made.calculate_pool_sizes(of.budget, of.page_size).max_total_num_tokens
    return {"scratch": made._fixed_overhead_bytes, "cell": made._cell_size, "tokens": tokens}


def ring(case: RingCase) -> dict[str, int]:
    """A request's ring, the rows that have one, and the window slots of an allocator over them."""
    spec = SimpleNamespace(speculative_num_draft_tokens=case.draft_tokens)
    deepseek_v4_memory_pool.get_spec = lambda: spec
    size = deepseek_v4_memory_pool.get_swa_ring_size(case.window, case.draft_tokens is not None)
    sizes = object.__new__(pool_configurator.DSV4PoolConfigurator)
    sizes.disaggregation_mode = "decode" if case.to_come else "null"
    sizes.disaggregation_decode_extra_slots = case.to_come
    table = ReqToTokenPool(
        size=case.requests + case.to_come,
        max_context_len=8,
        device="cpu",
        enable_memory_saver=False,
    )
    allocator = SWATokenToKVPoolAllocator(
        4 * case.page_size,
        4 * case.page_size,
        page_size=case.page_size,
        dtype=torch.bfloat16,
        device="cpu",
        kvcache=_Rings(size),
        need_sort=False,
        req_to_token_pool=table,
    )
    rows = sizes._get_num_req_slots(case.requests)
    return {"ring": size, "rows": rows, "size_swa": allocator._size_swa}


class _Rings(BaseSWAKVPool):  # type: ignore[misc]
    """All that the allocator asks of a pool."""

    full_kv_pool = swa_kv_pool = None

    def __init__(self, ring: int) -> None:
        self.swa_req_ring_size = ring

    def register_mapping(self, _table: torch.Tensor) -> None:
        """Not looked at where requests have rings."""


# The doors that a pool must have are not opened here.
_Rings.__abstractmethods__ = frozenset()


def _patch(module: Any, server: dict[str, Any]) -> None:
    for name, values in server.items():
        setattr(module, name, lambda values=values: values)


if __name__ == "__main__":
    main()
