"""How the latent and the rope part of a token become one stored row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from kvproto.kernels import (
    LATENT_BLOCK,
    load_latent_rows,
    load_packed_latent_rows,
    packed_latent_width,
    store_latent_rows,
    store_packed_latent_rows,
    store_rows,
    to_stored,
)

__all__ = ["LatentFormat", "PackedLatent", "PlainLatent", "latent_format"]


class LatentFormat(Protocol):
    """Row width, and the writes and reads that know what is in a row.

    Buffers are `[slots, 1, width]` in the store dtype; rows `[n, 1, rank + rope]` and parts
    `[n, 1, rank]`, `[n, 1, rope]` are of any float dtype.
    """

    @property
    def width(self) -> int:
        """Elements of the store dtype in a stored row."""
        ...

    @property
    def read_dtype(self) -> torch.dtype:
        """What the parts are read in where no dtype is asked for."""
        ...

    def store(self, target: Tensor, loc: Tensor, latent: Tensor, rope: Tensor) -> None:
        """Write rows from their parts."""
        ...

    def store_joined(self, target: Tensor, loc: Tensor, rows: Tensor) -> None:
        """Write rows whose parts lie side by side."""
        ...

    def load(self, source: Tensor, loc: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Read the parts in `dtype`."""
        ...


@dataclass(frozen=True, slots=True)
class PlainLatent:
    """Latent, then rope, in one element type; fp8 by its policy, with a scale of 1."""

    rank: int
    rope: int
    dtype: torch.dtype

    @property
    def width(self) -> int:
        return self.rank + self.rope

    @property
    def read_dtype(self) -> torch.dtype:
        return self.dtype

    def store(self, target: Tensor, loc: Tensor, latent: Tensor, rope: Tensor) -> None:
        store_latent_rows(target, loc, latent, rope, self.dtype)

    def store_joined(self, target: Tensor, loc: Tensor, rows: Tensor) -> None:
        store_rows(target, loc, to_stored(rows, self.dtype))

    def load(self, source: Tensor, loc: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        return load_latent_rows(source.view(self.dtype), loc, self.rank, dtype)


@dataclass(frozen=True, slots=True)
class PackedLatent:
    """fp8 latent, a float32 scale per block of it, bf16 rope: bytes, see `packed_latent_width`."""

    rank: int
    rope: int

    @property
    def width(self) -> int:
        return packed_latent_width(self.rank, self.rope)

    @property
    def read_dtype(self) -> torch.dtype:
        return torch.bfloat16

    def store(self, target: Tensor, loc: Tensor, latent: Tensor, rope: Tensor) -> None:
        store_packed_latent_rows(target, loc, latent, rope)

    def store_joined(self, target: Tensor, loc: Tensor, rows: Tensor) -> None:
        self.store(target, loc, rows[..., : self.rank], rows[..., self.rank :])

    def load(self, source: Tensor, loc: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        return load_packed_latent_rows(source, loc, self.rank, dtype)


def latent_format(
    dtype: torch.dtype, rank: int, rope: int, kv_cache_dim: int | None
) -> PlainLatent | PackedLatent:
    """The format with rows of `kv_cache_dim` elements; None is the plain one.

    :raises ValueError: for a width that no format of this dtype has.
    """
    plain = PlainLatent(rank, rope, dtype)
    if kv_cache_dim is None or kv_cache_dim == plain.width:
        return plain
    widths = f"{plain.width}"
    if dtype == torch.float8_e4m3fn and rank % LATENT_BLOCK == 0:
        packed = PackedLatent(rank, rope)
        if kv_cache_dim == packed.width:
            return packed
        widths += f", or {packed.width} (packed)"
    raise ValueError(
        f"kv_cache_dim={kv_cache_dim}: rows of kv_lora_rank={rank} and qk_rope_head_dim={rope} "
        f"in {dtype} have {widths} elements"
    )
