"""What pools are asked to do: the same calls of sglang's pool and of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import cycle
from typing import Any, cast

import torch
from torch import Tensor

from kvproto.kernels import gather_rows

__all__ = ["CASES", "POOLS", "Case", "Operation", "random_slots"]

Operation = Callable[[Any, str, int], Callable[[], object]]
"""Of a pool, whose it is, and a number of tokens: a call that can be repeated."""

BF16, FP8 = torch.bfloat16, torch.float8_e4m3fn
COMMON: dict[str, Any] = {
    "page_size": 64,
    "layer_num": 1,
    "device": "cpu",
    "enable_memory_saver": False,
}
LATENT = COMMON | {"kv_lora_rank": 512, "qk_rope_head_dim": 64}
POOLS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "MHA bf16": ("MHA", COMMON | {"dtype": BF16, "head_num": 8, "head_dim": 128}),
    "MHA bf16, 1 x 64": ("MHA", COMMON | {"dtype": BF16, "head_num": 1, "head_dim": 64}),
    "MHA fp8": ("MHA", COMMON | {"dtype": FP8, "head_num": 8, "head_dim": 128}),
    "MLA bf16": ("MLA", LATENT | {"dtype": BF16}),
    "DSA bf16": ("DSA", LATENT | {"dtype": BF16, "index_head_dim": 128, "kv_cache_dim": 576}),
}
"""Family and keywords, one layer; a row of keys is 2 KiB, 128 bytes, 1 KiB, or 1152 bytes."""

VARIANTS = 8
"""Sets of random slots that a call goes through in turn, so that no row is found in a cache."""


def random_slots(low: int, high: int, n: int) -> Iterator[Tensor]:
    """`[n]` of `low .. high - 1` without duplicates, another set at every step."""
    made = torch.Generator().manual_seed(n)
    sets: list[Tensor] = []
    for _ in range(VARIANTS):
        drawn = torch.randint(low, high, (n + n // 2 + 64,), generator=made)
        numbers = cast("list[int]", drawn.tolist())  # pyright: ignore[reportUnknownMemberType]
        sets.append(torch.tensor(list(dict.fromkeys(numbers))[:n]))
    return cycle(sets)


def slots_of(pool: Any, n: int) -> Iterator[Tensor]:
    """Of the pool's usable slots."""
    return random_slots(pool.page_size, pool.size + pool.page_size, n)


def write(pool: Any, whose: str, n: int) -> Callable[[], object]:
    """`set_kv_buffer` of rows as a model computes them, in bf16."""
    shape = (n, *pool.get_key_buffer(0).shape[1:])
    k, v, loc = torch.randn(shape).to(BF16), torch.randn(shape).to(BF16), slots_of(pool, n)
    return lambda: pool.set_kv_buffer(None, next(loc), k, v, layer_id_override=0)


def move(pool: Any, whose: str, n: int) -> Callable[[], object]:
    """`move_kv_cache` between random slots."""
    loc = slots_of(pool, n)
    return lambda: pool.move_kv_cache(next(loc), next(loc))


def gather(pool: Any, whose: str, n: int) -> Callable[[], object]:
    """Rows of a key buffer: what sglang's CPU attention indexes with, and what ours gathers."""
    loc, keys = slots_of(pool, n), pool.get_key_buffer(0)
    if whose == "kvproto":
        return lambda: gather_rows(keys, next(loc))
    return lambda: keys[next(loc)]


def copy_out(pool: Any, whose: str, n: int) -> Callable[[], object]:
    """`get_cpu_copy`."""
    loc = slots_of(pool, n)
    return lambda: pool.get_cpu_copy(next(loc))


def copy_in(pool: Any, whose: str, n: int) -> Callable[[], object]:
    """`load_cpu_copy`."""
    loc = slots_of(pool, n)
    kept = pool.get_cpu_copy(next(loc))
    return lambda: pool.load_cpu_copy(kept, next(loc))


@dataclass(frozen=True, slots=True)
class Case:
    """An operation on a pool of so many slots, for these numbers of tokens."""

    name: str
    pool: str
    size: int
    run: Operation
    tokens: tuple[int, ...] = (1, 64, 1024, 8192)


def _cases() -> Iterator[Case]:
    for pool in ("MHA bf16", "MHA fp8", "MLA bf16", "DSA bf16"):
        yield Case("set_kv_buffer", pool, 10**6, write, (1, 4, 8, 16, 64, 256, 1024, 8192))
        yield Case("move_kv_cache", pool, 10**6, move)
    for pool in ("MHA bf16", "MHA fp8", "MLA bf16"):
        yield Case("gather", pool, 10**6, gather)
    for pool in ("MHA bf16", "MLA bf16"):
        yield Case("get_cpu_copy", pool, 10**6, copy_out)
        yield Case("load_cpu_copy", pool, 10**6, copy_in)
    for size in (10**5, 10**7):
        yield Case("set_kv_buffer", "MHA bf16, 1 x 64", size, write, (1, 4, 64, 1024, 8192))
        yield Case("move_kv_cache", "MHA bf16, 1 x 64", size, move)


CASES = tuple(_cases())
"""Not among them: the index keys and latent parts that sglang reads and writes by Triton alone,
and host copies of its DSA pool, which wait for a CUDA device."""
