# pyright: basic, reportMissingImports=false
"""The same calls on sglang's composites and state pools and on ours, and what each then holds.

A script is run on both pools of each of its families. Tensors are told as a digest of their
bytes where the two ought to be equal, and as short lists where they are known to differ;
`test_composites.py` and `differences/composites.py` say which is which, and by what clause.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt.mem_cache.memory_pool import KVWriteLoc

from tests.interop.composite_pools import FAMILIES, FULL, WINDOW

__all__ = [
    "HEADS",
    "HYBRID",
    "STATE",
    "SWA",
    "THEIRS",
    "digest",
    "digests",
    "fill",
    "layer",
    "layers_of",
    "leaves",
    "observed",
    "on",
    "rows",
    "state_of",
    "tensors",
    "whole",
]

Script = Callable[[Any], object]
SCRIPTS: dict[str, tuple[tuple[str, ...], Script]] = {}
HEADS = ("swa, page 1", "swa, page 4", "swa, values narrower")
SWA = (*HEADS, "swa, fp8")
HYBRID = ("hybrid over mha", "hybrid over mla", "hybrid over dsa")
THEIRS = ("swa over sglang's leaves", "hybrid over sglang's parts")
STATE = ("state", "state, speculative")


def observed() -> dict[str, object]:
    """ "Script; family" -> what sglang's pool shows -> and ours; an exception by its name."""
    found: dict[str, object] = {}
    for name, (families, script) in SCRIPTS.items():
        for family in families:
            theirs, ours = (_told(script, make()) for make in FAMILIES[family])
            found[f"{name}; {family}"] = {"theirs": theirs, "ours": ours}
    return found


def on(*families: str) -> Callable[[Script], Script]:
    def add(script: Script) -> Script:
        SCRIPTS[script.__name__.replace("_", " ")] = (families, script)
        return script

    return add


def _told(script: Script, pool: Any) -> object:
    try:
        return script(pool)
    except Exception as error:
        return type(error).__name__


def layer(layer_id: int) -> Any:
    return SimpleNamespace(layer_id=layer_id)


def digest(tensors: list[torch.Tensor]) -> list[str]:
    return [
        f"{list(t.shape)} {t.dtype} "
        + hashlib.sha256(t.contiguous().view(torch.uint8).numpy().tobytes()).hexdigest()[:16]
        for t in tensors
    ]


def tensors(thing: Any) -> list[torch.Tensor]:
    """Every buffer of a leaf, by the names that both sides give them."""
    names = ("k_buffer", "v_buffer", "kv_buffer", "index_k_with_scale_buffer")
    return [buffer for name in names for buffer in getattr(thing, name, ())]


def leaves(pool: Any) -> list[Any]:
    names = ("full_kv_pool", "swa_kv_pool")
    return [leaf for name in names if (leaf := getattr(pool, name, None)) is not None]


def state_of(pool: Any) -> list[torch.Tensor]:
    pool = getattr(pool, "mamba_pool", pool)
    cache = getattr(pool, "mamba_cache", None)
    return [] if cache is None else [*cache.conv, cache.temporal]


def digests(pool: Any) -> list[str]:
    return digest([t for leaf in leaves(pool) for t in tensors(leaf)] + state_of(pool))


def rows(pool: Any, n: int, salt: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(salt)
    k, v = pool.get_kv_buffer(FULL[0])
    if hasattr(pool, "kv_lora_rank") or not hasattr(leaves(pool)[0], "head_num"):
        v = k
    keys, values = (
        torch.randn((n, *buffer.shape[1:]), generator=generator).bfloat16() for buffer in (k, v)
    )
    return keys, values


def layers_of(pool: Any) -> list[int]:
    return sorted(getattr(pool, "layers_mapping", None) or pool.full_attention_layer_id_mapping)


def fill(pool: Any, slots: list[int] = [5, 6, 7, 8, 9]) -> None:  # noqa: B006
    """Rows into every layer; window layers get theirs where there is a peer."""
    loc = torch.tensor(slots)
    for layer_id in layers_of(pool):
        k, v = rows(pool, len(slots), layer_id)
        given, swa = loc, None
        if layer_id in WINDOW:
            # A row that goes nowhere is another matter: leave it out.
            swa = pool.translate_loc_from_full_to_swa(loc)
            kept = swa > 0
            given, swa, k, v = loc[kept], swa[kept], k[kept], v[kept]
        pool.set_kv_buffer(layer(layer_id), KVWriteLoc(given, swa_loc=swa), k, v)
    for index, tensor in enumerate(state_of(pool)):
        generator = torch.Generator().manual_seed(100 + index)
        tensor[:, 1:] = torch.randn(tensor[:, 1:].shape, generator=generator).to(tensor.dtype)


def whole(size: Any) -> list[int]:
    """Plain integers, one or two: sglang's are numpy's."""
    return [int(part) for part in (size if isinstance(size, tuple) else (size,))]
