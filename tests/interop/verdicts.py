"""The kit's verdicts on sglang's real pools, as `results/laws.json` has them, and their causes."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

__all__ = [
    "PROVENANCE",
    "SAMPLE",
    "Cause",
    "Verdicts",
    "causes",
    "grouped",
    "recorded",
    "red",
    "release",
    "stopped",
]

RESULTS = Path(__file__).parent / "results"

PROVENANCE = """\
sglang's classes are its own, and not changed, but they run on the CPU. Where sglang has a
fallback off CUDA, that is what is seen, not the kernel that it has on a GPU. Triton kernels run
in Triton's interpreter, whose casts to fp8 and bf16 and whose masked store are patched, where
that shows, to do what compiled kernels do (`tests/interop/rounding.py`), and functions under
`torch.compile` run without it. Rows 16 bytes at a time are a layout of ROCm's: the module's flag
for ROCm kernels is patched while such a pool is built (`tests/interop/layouts.py`)."""
"""What was run, as the pages say it."""

Verdicts: TypeAlias = Mapping[str, Mapping[str, Mapping[str, str]]]
"""Pool -> law -> geometry -> the status, and after ": " what was found or who blocked it."""

SAMPLE: dict[str, tuple[str, ...] | None] = {
    "MHATokenToKVPool": ("mha-bf16-page1", "mha-fp8-e4m3fnuz-page4", "swa-page1"),
    "MLATokenToKVPool": ("mla-bf16-page1",),
    "DSATokenToKVPool": ("dsa-bf16-page64-stage",),
    "MiniMaxSparseKVPool": ("sparse-bf16-page1",),
    "SWAKVPool over MHATokenToKVPool": ("swa-page4-window-first",),
    "SWAKVPool over latents": ("swa-page16-latent",),
    "HybridLinearKVPool over MHATokenToKVPool": ("hybrid-page1",),
    "HybridLinearKVPool over MLATokenToKVPool": ("hybrid-page4-latent",),
    "HybridLinearKVPool over DSATokenToKVPool": ("hybrid-page64-index-keys",),
    "MambaPool": None,
    "TokenToKVPoolAllocator": None,
    "PagedTokenToKVPoolAllocator": ("alloc-page4",),
    "SWATokenToKVPoolAllocator": ("pair-page4",),
    "PureSWATokenToKVPoolAllocator": None,
    "MambaSlotAllocator": None,
    "ReqToTokenPool": None,
    "DecodeReqToTokenPool": None,
    "HybridReqToTokenPool": ("rows-state-lazy-snapshots",),
    "HybridMambaDecodeReqToTokenPool": ("rows-state-pre-alloc",),
}
"""Every pool of sglang's that is under the kit -> the geometries that each test run asks again,
all of them where they are cheap."""


@dataclass(frozen=True, slots=True)
class Cause:
    """A sentence on sglang's behaviour, and the laws that it breaks, by pool."""

    sentence: str
    breaks: Mapping[str, tuple[str, ...]]

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Pool and law."""
        for pool, laws in self.breaks.items():
            yield from ((pool, law) for law in laws)


def recorded() -> Verdicts:
    """What the file says."""
    return {
        pool: {
            law: {spec: verdict for verdict, specs in by_verdict.items() for spec in specs.split()}
            for law, by_verdict in laws.items()
        }
        for pool, laws in _file().items()
        if pool != "sglang"
    }


def release() -> str:
    """The release of sglang's that was asked."""
    return str(_file()["sglang"])


def grouped(verdicts: Verdicts) -> dict[str, dict[str, dict[str, str]]]:
    """As in the file: pool -> law -> verdict -> the geometries in which it is so."""
    return {
        pool: {law: _by_verdict(specs) for law, specs in sorted(laws.items())}
        for pool, laws in verdicts.items()
    }


def red(verdicts: Verdicts) -> set[tuple[str, str]]:
    """Pool and law, where the law failed in some geometry."""
    return {
        (pool, law)
        for pool, laws in verdicts.items()
        for law, specs in laws.items()
        if any(verdict.startswith("failed") for verdict in specs.values())
    }


def stopped(verdicts: Verdicts, error: str) -> set[tuple[str, str]]:
    """Red rows in which each finding is this exception of `set_kv_buffer`'s, and nothing else."""
    found = set()
    for pool, law in red(verdicts):
        told = [verdict for verdict in verdicts[pool][law].values() if verdict.startswith("failed")]
        if all(
            each.startswith("failed: set_kv_buffer(") and f"got {error}:" in each for each in told
        ):
            found.add((pool, law))
    return found


def causes() -> list[Cause]:
    """Those of `results/explained.toml`, in its order."""
    found = tomllib.loads((RESULTS / "explained.toml").read_text())["cause"]
    return [
        Cause(each["sentence"], {pool: tuple(laws) for pool, laws in each["breaks"].items()})
        for each in found
    ]


def _by_verdict(specs: Mapping[str, str]) -> dict[str, str]:
    return {
        verdict: " ".join(spec for spec, found in specs.items() if found == verdict)
        for verdict in _in_order(specs.values())
    }


def _in_order(verdicts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(verdicts))


def _file() -> dict[str, dict[str, dict[str, str]]]:
    found: dict[str, dict[str, dict[str, str]]] = json.loads((RESULTS / "laws.json").read_text())
    return found
