# pyright: basic, reportMissingImports=false
"""What sglang's own sizing code makes of models, ranks and memory, as one JSON object.

Its model configs and its pool configurators are the real ones; what they read of a running server
(ranks, schedule, memory options) is handed to them as plain values. Run in `.interop-venv`.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt.configs.hybrid_arch import mambaish_config
from sglang.srt.configs.model_config import AttentionArch, ModelConfig
from sglang.srt.mem_cache import allocation_sizing, kv_cache_configurator
from sglang.srt.model_executor import pool_configurator
from sglang.srt.runtime_context import get_parallel
from sglang.srt.speculative.dflash_utils import dflash_draft_cell_size_per_token
from transformers import AutoConfig

from kvproto.configurator import example_config
from tests.interop.sizing_cases import (
    ARCHITECTURES,
    CASES,
    CONTEXT_LEN,
    SizingCase,
    as_published,
)

DTYPES = {
    "auto": torch.bfloat16,
    "mxfp8": torch.float8_e4m3fn,
    "fp8_e4m3": torch.float8_e4m3fn,
    "fp8_e5m2": torch.float8_e5m2,
}


def main() -> None:
    json.dump({case.name: sized(case) for case in CASES}, sys.stdout)


def sized(case: SizingCase) -> dict[str, Any]:
    """What they count for one case; budgets are taken after the state has had its share."""
    get_parallel().override_permanently(
        attn_tp_size=case.tp,
        attn_dcp_size=case.dcp,
        attn_cp_size=1,
        pp_size=1,
        enable_cp_tp_group_sharing=False,
        enable_dsa_cache_layer_split=False,
        enable_kv_cache_sharding=False,
    )
    server = _server(case)
    for module in (pool_configurator, kv_cache_configurator, allocation_sizing):
        for name, values in server.items():
            setattr(module, name, lambda values=values: values)
    model = _model_config(case, case.model)
    kvc = _configurator(case, model)
    left, slots = case.budget, None
    if kvc.mambaish_config is not None:
        gib = 1 << 30
        rest = kv_cache_configurator.KVCacheConfigurator._handle_max_mamba_cache(
            kvc, case.budget / gib
        )
        left, slots = int(rest * gib), server["get_schedule"].max_mamba_cache_size
    made = pool_configurator.create_memory_pool_configurator(kvc)
    found = {"cell": made._cell_size, "state_slots": slots, "left": left}
    sizes = made.calculate_pool_sizes(left, case.page_size)
    requests = kv_cache_configurator.KVCacheConfigurator.resolve_max_num_reqs(
        kvc, sizes.max_total_num_tokens
    )
    return found | {
        "requests": requests,
        "tokens": sizes.max_total_num_tokens,
        "window_tokens": sizes.swa_max_total_num_tokens,
    }


def _server(case: SizingCase) -> dict[str, Any]:
    """What the sizing code asks of a running server, by the function it asks with."""
    schedule = SimpleNamespace(
        max_total_tokens=None,
        swa_full_tokens_ratio=case.window_ratio,
        page_size=case.page_size,
        max_running_requests=case.max_running_requests,
        max_mamba_cache_size=None,
        mamba_full_memory_ratio=case.state_ratio,
        disable_overlap_schedule=False,
        chunked_prefill_size=8192,
    )
    memory = SimpleNamespace(
        enable_hisparse=False,
        enable_unified_memory=False,
        disable_radix_cache=not case.prefix_cache,
        enable_hierarchical_cache=False,
        enable_unified_cache_external_linker=False,
    )
    backend = "trtllm" if case.dsa_rows == "raw" else "flashmla"
    execution = SimpleNamespace(
        kernel=SimpleNamespace(dsa_decode_backend=backend, dsa_prefill_backend=backend),
        mamba=SimpleNamespace(enable_linear_replayssm_spec=False, enable_mamba_extra_buffer=False),
    )
    drafted = None if case.draft_kind is None else case.draft_tokens
    context = SimpleNamespace(override=lambda _source, **fields: vars(schedule).update(fields))
    return {
        "get_schedule": schedule,
        "get_memory": memory,
        "get_exec": execution,
        "get_context": context,
        "get_disagg": SimpleNamespace(disaggregation_mode="null", enable_pd_role_switch=False),
        "get_spec": SimpleNamespace(
            speculative_algorithm=None if case.draft_kind is None else case.draft_kind.upper(),
            speculative_num_draft_tokens=drafted,
            speculative_num_steps=case.draft_steps,
            speculative_eagle_topk=1,
        ),
        "max_speculative_num_draft_tokens": drafted,
    }


def _model_config(case: SizingCase, model: str) -> Any:
    config = AutoConfig.for_model(example_config(model)["model_type"]).to_dict()
    config = as_published(model, config) | {"architectures": [ARCHITECTURES[model]]}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(config, default=str))
        return ModelConfig(folder)


def _configurator(case: SizingCase, model: Any) -> Any:
    """The parts of a configurator that sizing reads."""
    drafts = SimpleNamespace(
        is_eagle=lambda: case.draft_kind == "eagle",
        is_standalone=lambda: False,
        is_dflash_family=lambda: case.draft_kind == "dflash",
        is_none=lambda: case.draft_kind is None,
    )
    start, end = case.layers or (0, model.num_attention_layers)
    full, window = (
        [i for i in ids or () if start <= i < end]
        for ids in (model.full_attention_layer_ids, model.swa_attention_layer_ids)
    )
    kvc = SimpleNamespace(
        kv_cache_dtype_str=case.kv_dtype,
        kv_cache_dtype=DTYPES[case.kv_dtype],
        model_dtype=torch.bfloat16,
        model_config=model,
        mambaish_config=mambaish_config(model),
        hybrid_gdn_config=None,
        hybrid_kda_config=None,
        layer_info=SimpleNamespace(
            start_layer=start,
            end_layer=end,
            num_effective_layers=end - start,
            full_attention_layer_ids=full,
            swa_attention_layer_ids=window,
        ),
        server_args=SimpleNamespace(
            enable_hisparse=False, kv_cache_dtype=case.kv_dtype, attention_backend="triton"
        ),
        use_mla_backend=model.attention_arch == AttentionArch.MLA,
        is_hybrid_swa=model.is_hybrid_swa,
        is_draft_worker=False,
        spec_algorithm=drafts,
        spec_aux_config=SimpleNamespace(
            eagle_draft_num_layers=case.draft_layers,
            eagle_draft_swa_num_layers=_draft_windows(case),
            dflash_draft_num_layers=case.draft_layers,
        ),
        sliding_window_size=example_config(case.model).get("sliding_window"),
        page_size=case.page_size,
        pp_size=1,
        attn_dp_size=1,
        device="cpu",
        kv_shard_size=1,
        kv_shard_spec=None,
        extra_mamba_cache_bytes_per_req=0,
        dflash_draft_cell_size_per_token=_dflash_cell(case),
        fused_entry_bytes=lambda _name: None,
    )
    model.context_len = CONTEXT_LEN
    kvc._calculate_mamba_ratio = lambda: (
        kv_cache_configurator.KVCacheConfigurator._calculate_mamba_ratio(kvc)
    )
    return kvc


def _draft_windows(case: SizingCase) -> int | None:
    """Windowed layers of a draft's own config, as the engine counts them."""
    if case.draft is None or case.draft_kind != "eagle":
        return None
    return len(_model_config(case, case.draft).swa_attention_layer_ids)


def _dflash_cell(case: SizingCase) -> int | None:
    if case.draft is None or case.draft_kind != "dflash":
        return None
    cell: int = dflash_draft_cell_size_per_token(
        draft_model_config=_model_config(case, case.draft),
        draft_num_layers=case.draft_layers,
        draft_kv_cache_dtype=DTYPES[case.draft_kv_dtype or case.kv_dtype],
        tp_size=case.tp,
    )
    return cell


if __name__ == "__main__":
    main()
