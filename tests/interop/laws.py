# pyright: basic, reportMissingImports=false
"""The kit's verdicts on sglang's real pools, as plain data: every law on every pool.

Each law runs in a fork of this process, which runs none itself: interpreted kernels write where
they are told, and what one law destroyed must not be another one's verdict.

    python -m tests.interop.laws [--sample | POOL ...]     one JSON object; every pool by default
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence

from kvproto.conformance import Factory, LawResult, check_pool
from tests.interop import account_factories, composite_factories, factories
from tests.interop.rounding import as_compiled
from tests.interop.verdicts import SAMPLE, Verdicts

__all__ = ["POOLS", "verdicts"]

POOLS: dict[str, Factory] = {
    "MHATokenToKVPool": factories.mha,
    "MLATokenToKVPool": factories.mla,
    "DSATokenToKVPool": factories.dsa,
    "MiniMaxSparseKVPool": factories.sparse,
    "SWAKVPool over MHATokenToKVPool": composite_factories.swa_over_mha,
    "SWAKVPool over latents": composite_factories.swa_over_latents,
    "HybridLinearKVPool over MHATokenToKVPool": composite_factories.hybrid_over_mha,
    "HybridLinearKVPool over MLATokenToKVPool": composite_factories.hybrid_over_mla,
    "HybridLinearKVPool over DSATokenToKVPool": composite_factories.hybrid_over_dsa,
    "MambaPool": composite_factories.state,
    "TokenToKVPoolAllocator": account_factories.tokens,
    "PagedTokenToKVPoolAllocator": account_factories.pages,
    "SWATokenToKVPoolAllocator": account_factories.pair,
    "PureSWATokenToKVPoolAllocator": account_factories.window_only,
    "MambaSlotAllocator": account_factories.state_slots,
    "ReqToTokenPool": account_factories.rows,
    "DecodeReqToTokenPool": account_factories.decode_rows,
    "HybridReqToTokenPool": account_factories.rows_with_state,
    "HybridMambaDecodeReqToTokenPool": account_factories.decode_rows_with_state,
}


def verdicts(chosen: Mapping[str, Sequence[str] | None]) -> Verdicts:
    """Of these pools in these geometries; None is all of them.

    Our composites over a pool are pools too, under the name that reports give them.
    """
    found: dict[str, dict[str, dict[str, str]]] = {}
    for pool, specs in chosen.items():
        with as_compiled():
            report = check_pool(POOLS[pool], specs=specs, isolate="every")
        for result in report.results:
            name = result.subject if " over " in result.subject else pool
            found.setdefault(name, {}).setdefault(result.law, {})[result.spec] = _verdict(result)
    return found


def _verdict(result: LawResult) -> str:
    """Without what differs from run to run or release to release: addresses and line numbers."""
    told = f"{result.status}: {result.detail}" if result.detail else result.status
    return re.sub(r"(?<=\.py):\d+", "", re.sub(r"\b\d{9,}\b", "<address>", told))


def _asked(arguments: list[str]) -> Mapping[str, Sequence[str] | None]:
    if arguments == ["--sample"]:
        return SAMPLE
    return dict.fromkeys(arguments or POOLS)


if __name__ == "__main__":
    json.dump(verdicts(_asked(sys.argv[1:])), sys.stdout)
