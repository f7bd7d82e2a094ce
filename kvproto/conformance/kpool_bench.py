"""Tokens of requests for the laws about index keys that several tokens share."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kvproto.protocols import DSALeafRequest

from .latent_bench import LatentBench, has_index_keys

__all__ = ["Decoded", "decode", "has_groups", "has_tails", "pooled", "ring_shape", "tails", "token"]

_PAGES = ((2, 1), (3, 2), (1, 3))
"""The token pages of request rows, by row number modulo three."""


def has_groups(request: object, /) -> bool:
    """For laws about index keys that several tokens share."""
    return (
        has_index_keys(request)
        and isinstance(request, DSALeafRequest)
        and (request.index_kpool > 1)
    )


def has_tails(request: object, /) -> bool:
    """For laws about the rings of requests."""
    return has_groups(request) and isinstance(request, DSALeafRequest) and request.has_tails


def ring_shape(bench: LatentBench) -> tuple[int, int, int]:
    """Request rows, tokens of a ring, and width, as they were asked for."""
    asked = bench.asked
    if not isinstance(asked, DSALeafRequest):
        return 0, 0, 0
    return asked.tail_rows, asked.tail_length, asked.index_head_dim


def tails(bench: LatentBench, layer_id: int) -> tuple[Tensor, Tensor]:
    """The rings of a layer, float32, as the oracle finds them."""
    keys, scores = bench.oracle.tails(layer_id)
    return keys.float(), scores.float()


def token(bench: LatentBench, row: int, position: int) -> tuple[Tensor, Tensor]:
    """The raw key and score of a request's token: small integers and quarters, `[width]`."""
    i = torch.arange(bench.index_head_dim)
    key = (i * (row + 2) + 5 * position) % 7 - 3
    score = ((i + 3 * row + 2 * position) % 5 - 2) * 0.25
    return key.to(torch.bfloat16), score.to(torch.bfloat16)


def bias(bench: LatentBench) -> Tensor:
    """The position bias, float32 `[index_kpool, width]`."""
    count = torch.arange(bench.index_kpool * bench.index_head_dim)
    return ((count % 3 - 1) * 0.5).view(bench.index_kpool, -1)


@dataclass(frozen=True)
class Decoded:
    """One token a request, as a decode step has them; the default is a real token."""

    row: int
    position: int
    loc: int | None = None
    seq_len: int | None = None

    def location(self, bench: LatentBench) -> int:
        """Its token slot, by the request's pages."""
        page = bench.request.page_size
        slot = _PAGES[self.row % 3][self.position // page % 2] * page + self.position % page
        return slot if self.loc is None else self.loc

    def index_slot(self, bench: LatentBench) -> int:
        """The index slot of its group."""
        return self.location(bench) // bench.index_kpool


def decode(
    bench: LatentBench, layer_id: int, tokens: list[Decoded], *, round_scale: bool = False
) -> None:
    """`kpool_decode_update_index_cache` with these tokens."""
    group = bench.index_kpool
    rows = [token(bench, t.row, t.position) for t in tokens]
    width = (len(tokens), bench.index_head_dim)
    tables = [
        [page * group + i for page in _PAGES[t.row % 3] for i in range(group)] for t in tokens
    ]
    lens = [t.position + 1 if t.seq_len is None else t.seq_len for t in tokens]
    bench.pool.kpool_decode_update_index_cache(
        layer_id,
        torch.stack([key for key, _ in rows]).view(width),
        torch.stack([score for _, score in rows]).view(width),
        bias(bench),
        torch.tensor(tables, dtype=torch.int32),
        torch.tensor([t.row for t in tokens], dtype=torch.int32),
        torch.tensor([t.position for t in tokens]),
        torch.tensor(lens, dtype=torch.int32),
        torch.tensor([t.location(bench) for t in tokens]),
        round_scale=round_scale,
    )


def pooled(bench: LatentBench, row: int, last: int) -> Tensor:
    """What the key of the group that ends at position `last` means, float64, before rounding."""
    group = bench.index_kpool
    parts = [token(bench, row, last - group + 1 + i) for i in range(group)]
    keys = torch.stack([key.double() for key, _ in parts])
    scores = torch.stack([score.double() for _, score in parts]) + bias(bench).double()
    weights = scores.exp() / scores.exp().sum(0)
    mixed = (keys * weights).sum(0)
    rotated: Tensor = mixed @ _hadamard(bench.index_head_dim)
    return rotated / torch.tensor(bench.index_head_dim).double().sqrt()


def _hadamard(width: int) -> Tensor:
    """Sylvester's matrix, from its definition."""
    two = torch.tensor([[1.0, 1.0], [1.0, -1.0]], dtype=torch.float64)
    matrix = torch.ones(1, 1, dtype=torch.float64)
    while matrix.shape[0] < width:
        matrix = torch.kron(two, matrix)
    return matrix
