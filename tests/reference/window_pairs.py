"""Small window pairs, and what their tests look at."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kvproto.reference.dsa import DSALeaf
from kvproto.reference.mha import MHALeaf
from kvproto.reference.mla import MLALeaf
from kvproto.reference.swa_parts import swa_pool
from tests.reference.foreign import ForeignIndexedLeaf, ForeignLeaf

ROWS: dict[str, Any] = {
    "page_size": 1,
    "dtype": torch.bfloat16,
    "head_num": 1,
    "head_dim": 2,
    "device": "cpu",
}

LATENT: dict[str, Any] = {
    "page_size": 64,
    "dtype": torch.bfloat16,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "device": "cpu",
}


def but(**changes: Any) -> dict[str, Any]:
    """`ROWS` with some of it changed."""
    return ROWS | changes


def pair(full: Any, window: Any, full_ids: list[int], window_ids: list[int], **stage: Any) -> Any:
    """Typed as anything: the tests ask for each capability themselves."""
    return swa_pool(
        full_kv_pool=full,
        swa_kv_pool=window,
        full_attention_layer_ids=full_ids,
        swa_attention_layer_ids=window_ids,
        **stage,
    )


def two(leaf: Any, layer_num: int = 1) -> tuple[Any, Any]:
    return (
        leaf(size=8, layer_num=layer_num, **ROWS),
        leaf(size=8, layer_num=layer_num, **ROWS),
    )


def has(pool: object, capability: type) -> bool:
    """`isinstance`, after which the checkers know no more of the pool than before."""
    return isinstance(pool, capability)


def mapped(pool: Any, peers: dict[int, int]) -> Any:
    """Register a table of the whole full space with these peers, -1 at its end."""
    table = torch.zeros(pool.size + pool.page_size + 1, dtype=torch.int64)
    table[-1] = -1
    for full, window in peers.items():
        table[full] = window
    pool.register_mapping(table)
    return pool


def small(leaf: Any = MHALeaf, peers: dict[int, int] | None = None) -> Any:
    """Sixteen full slots, eight window slots; layers 0 and 2 are full, layer 1 is a window."""
    full, window = leaf(size=16, layer_num=2, **ROWS), leaf(size=8, layer_num=1, **ROWS)
    return mapped(pair(full, window, [0, 2], [1]), peers or {3: 1, 4: 2})


def rows(*values: float, width: int = 2) -> Tensor:
    return torch.tensor(values, dtype=torch.bfloat16).view(-1, 1, 1).expand(-1, 1, width)


def keys(pool: Any, layer_id: int) -> list[float]:
    found: list[float] = pool.get_key_buffer(layer_id)[:, 0, 0].tolist()
    return found


def latent_pair(**changes: Any) -> Any:
    full = DSALeaf(size=128, layer_num=2, index_head_dim=128, **LATENT, **changes)
    window = MLALeaf(size=64, layer_num=1, **LATENT)
    return mapped(pair(full, window, [0, 2], [1]), {70: 65, 71: 66})


def indexed_and_plain() -> tuple[ForeignIndexedLeaf, ForeignLeaf]:
    paged = but(page_size=4)
    return ForeignIndexedLeaf(size=8, layer_num=2, **paged), ForeignLeaf(
        size=4, layer_num=1, **paged
    )
