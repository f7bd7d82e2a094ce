"""Write and read packed latent rows at locations."""

from __future__ import annotations

import torch
from torch import Tensor

from .apart import apart
from .gather_rows import gather_rows
from .locations import check_locations
from .pack_latent_rows import pack_latent_rows
from .store_rows import store_rows
from .triton_devices import served_by_triton
from .unpack_latent_rows import unpack_latent_rows

__all__ = ["load_packed_latent_rows", "store_packed_latent_rows"]


def store_packed_latent_rows(target: Tensor, loc: Tensor, latent: Tensor, rope: Tensor) -> None:
    """`store_rows` of what `pack_latent_rows` makes of the two parts.

    `target` is uint8 `[slots, 1, packed width]`. A Triton kernel quantises where it stores, parts
    of bfloat16, float16 and float32, into dense rows of whole float32; rows of other buffers are
    packed first.

    :raises ValueError: for parts of another width than the target's; nothing is written.
    :raises TypeError: for parts of a dtype that the kernel does not serve; nothing is written.
    :raises IndexError: on the CPU, for a location past the last row; nothing is written.
    """
    if not served_by_triton(loc):
        store_rows(target, loc, pack_latent_rows(latent, rope))
        return
    from .triton.launch import run
    from .triton.packed_latent import is_aligned, plan_store_packed_latent

    check_locations(loc, target.shape[0])
    if not is_aligned(target):
        store_rows(target, loc, pack_latent_rows(latent, rope))
        return
    run(plan_store_packed_latent(target, loc, apart(latent, target), apart(rope, target)))


def load_packed_latent_rows(
    source: Tensor, loc: Tensor, rank: int, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """What `unpack_latent_rows` makes of the rows at `loc`; zeros for 0 and below.

    A Triton kernel gives bfloat16, float16 and float32, and other dtypes from float32.

    :raises IndexError: on the CPU, for a location past the last row.
    """
    if not served_by_triton(loc):
        return unpack_latent_rows(gather_rows(source, loc), rank, dtype)
    from .triton.launch import run
    from .triton.packed_latent import FLOATS, is_aligned, plan_load_packed_latent

    check_locations(loc, source.shape[0])
    if dtype not in FLOATS or not is_aligned(source):
        return unpack_latent_rows(gather_rows(source, loc), rank, dtype)
    rope = (source.shape[-1] - rank - rank // 32) // 2
    parts = tuple(source.new_empty((loc.shape[0], 1, w), dtype=dtype) for w in (rank, rope))
    run(plan_load_packed_latent(source, loc, *parts))
    return parts[0], parts[1]
