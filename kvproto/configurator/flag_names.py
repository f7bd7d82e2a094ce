"""What the options of a plan are called on the command line, for messages."""

from __future__ import annotations

import re

from .plan_error import PlanError

__all__ = ["FLAGS", "PYTHON_ONLY", "in_flags"]

FLAGS = {
    "allocator_fallback": "--allocator-fallback",
    "cache_bytes": "--memory",
    "chunked_prefill_size": "--chunked-prefill",
    "chunked_prefill_size=None": "--chunked-prefill 0",
    "context_len": "--context-len",
    "dcp_size": "--dcp",
    "dp_attention_size": "--dp-attention",
    "draft_attn_tp_size": "--draft-tp",
    "draft_kv_cache_dtype": "--draft-dtype",
    "draft_layers": "--draft-layers",
    "draft_rows": "--draft-rows",
    "draft_shape": "--draft-config",
    "draft_tokens": "--draft-tokens",
    "dsa_rows": "--dsa-rows",
    "free_bytes": "--memory",
    "full_memory_ratio": "--state-ratio",
    "host_to_device_ratio": "--host-ratio",
    "index_rows": "--index-rows",
    "kind": "--draft-kind",
    "kv_cache_dtype": "--kv-dtype",
    "kv_sharding": "--kv-sharding",
    "latent_layout": "--latent-layout",
    "layout": "--layout",
    "max_running_requests": "--max-running",
    "max_total_tokens": "--max-tokens",
    "model_dtype": "--model-dtype",
    "page_size": "--page-size",
    "pool_memory": "--pool-memory",
    "pp_rank": "--pp-rank",
    "pp_size": "--pp",
    "prefix_cache=False": "--no-prefix-cache",
    "reserved_bytes": "--reserved",
    "role": "--role",
    "rows": "--rows",
    "slots": "--state-slots",
    "speculative": "--draft-kind",
    "ssm_dtype": "--state-dtype",
    "static_fraction": "--static-fraction",
    "swa_full_tokens_ratio": "--window-ratio",
    "total_bytes": "--memory",
    "tp_size": "--tp",
    "window_pools=False": "--no-window-pools",
    "window_storage": "--window-storage",
}
"""The flag of an option, or of an option with a value that a flag alone gives."""

PYTHON_ONLY = frozenset(
    {
        "conv_dtype",
        "device",
        "enable_memory_saver",
        "overlap_schedule",
        "plan",
        "pp_layers",
        "pre_alloc_size",
        "prefix_cache",
        "state",
        "steps",
        "topk",
        "tracking",
        "version",
        "window_eviction_interval",
        "window_pools",
    }
)
"""Options that no flag gives, or gives a wrong value; `model_type` is the config's."""


def in_flags(error: PlanError, memory: str) -> str:
    """What a plan says of its options, said of the command's; of bytes, as they were typed."""
    names = "|".join(sorted((name for name in FLAGS if "_" in name), key=len, reverse=True))
    text = re.sub(rf"\b({names})\b", lambda name: FLAGS[name[0]], f"{error.why}; {error.change}")
    alone = FLAGS.get(f"{error.option}={error.value!r}")
    if alone is not None:
        return f"{alone}: {text}"
    option = FLAGS.get(error.option, error.option)
    value = memory if error.option == "cache_bytes" else error.value
    return f"{option}={value!r}: {text}"
