# pyright: basic, reportMissingImports=false
"""What sglang's own pools allocate where ranks split tokens, and for a slot of one byte buffer.

One JSON object. Run in `.interop-venv`.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch
from sglang.srt.mem_cache.layout.fused_draft import DenseDraftRegion
from sglang.srt.mem_cache.memory_pool import DSATokenToKVPool
from sglang.srt.mem_cache.unified_memory_pool import MHASubPoolSpec, MLASubPoolSpec
from sglang.srt.runtime_context import get_parallel

from tests.interop.split_cases import DRAFT, HOSTS, RANKS, SPLIT


def main() -> None:
    get_parallel().override_permanently(
        attn_dcp_size=RANKS, attn_dcp_rank=0, dcp_size=RANKS, dcp_rank=0, dcp_enabled=True
    )
    json.dump({"pools": pools(), "entries": entries()}, sys.stdout)


def pools() -> dict[str, Any]:
    """Bytes of rows and of index pages, and how many keys a page has."""
    found: dict[str, Any] = {}
    for name, geometry in SPLIT.items():
        pool = DSATokenToKVPool(
            **geometry, dtype=torch.bfloat16, device="cpu", enable_memory_saver=False
        )
        keys = pool.index_key_cache.buffer
        found[name] = {
            "rows": sum(rows.nbytes for rows in pool.kv_buffer),
            "pages": [list(page.shape) for page in keys],
            "keys": sum(page.nbytes for page in keys),
        }
    return found


def entries() -> dict[str, int]:
    """Bytes of a slot, alone and with a draft's rows in it."""
    found: dict[str, int] = {}
    for name, host in HOSTS.items():
        made = MLASubPoolSpec if "kv_lora_rank" in host else MHASubPoolSpec
        for fused in (False, True):
            region = _region() if fused else None
            spec = made(
                **host,
                name="full",
                store_dtype=torch.bfloat16,
                grow_direction="down",
                draft_region=region,
            )
            found[f"{name}, {'fused' if fused else 'alone'}"] = spec.entry_bytes()
    return found


def _region() -> Any:
    return DenseDraftRegion(**DRAFT, store_dtype=torch.bfloat16)


if __name__ == "__main__":
    main()
