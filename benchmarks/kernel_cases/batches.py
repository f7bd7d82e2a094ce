"""Batches of requests that ask for slots, and the pages that are free for them."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

import torch
from torch import Tensor

from benchmarks.kernel_cases.case import Place

__all__ = ["PAGE_SIZES", "Batch", "decoding", "extending", "pages_for"]

PAGE_SIZES = (1, 16, 64, 128)


class Batch(NamedTuple):
    """`[requests]` int64 each, and of two spaces `[pages]`, as many as are needed.

    `peers` has a peer for the last token of three quarters of the requests. Any number of a
    `Place`'s tokens is one of requests. Another seed gives the same lengths to other requests, so
    that shapes are the same and a captured graph can be replayed on it.
    """

    prefix_lens: Tensor
    seq_lens: Tensor
    last_loc: Tensor
    new_pages: Tensor
    peer_pages: Tensor
    peers: Tensor
    tokens: int


def extending(place: Place, page_size: int) -> Batch:
    """Some requests are new, some have nothing to add, some end with a page."""
    dice, most = Random(0), max(40, 3 * page_size)
    prefixes = [dice.choice((0, page_size, dice.randrange(most))) for _ in range(place.tokens)]
    extends = [dice.choice((0, page_size, *2 * (dice.randrange(most),))) for _ in prefixes]
    return _batch(place, page_size, list(zip(prefixes, extends, strict=True)))


def decoding(place: Place, page_size: int) -> Batch:
    """One in eight begins a page where a page has more than a token."""
    dice = Random(0)
    prefixes = [dice.choice((page_size, *7 * (dice.randrange(400),))) for _ in range(place.tokens)]
    return _batch(place, page_size, [(prefix, 1) for prefix in prefixes])


def pages_for(place: Place, page_size: int) -> Batch:
    """As many whole pages as the place has tokens."""
    return _batch(place, page_size, [(0, page_size)] * place.tokens)


def _batch(place: Place, page: int, lens: list[tuple[int, int]]) -> Batch:
    """Of requests that have so many tokens and get so many more."""
    lens = Random(place.seed).sample(lens, len(lens)) if place.seed else lens
    prefixes, extends = [prefix for prefix, _ in lens], [extend for _, extend in lens]
    requests = len(prefixes)
    seqs = [prefix + extend for prefix, extend in zip(prefixes, extends, strict=True)]
    need = sum(
        -(-seq // page) + (-prefix // page) for prefix, seq in zip(prefixes, seqs, strict=True)
    )
    dice = Random(place.seed + 1)
    ids, peer_ids = (dice.sample(range(1, n + 1), n) for n in 2 * (requests + need,))
    last = [
        ids[i] * page + (prefix - 1) % page if prefix else -1 for i, prefix in enumerate(prefixes)
    ]
    table = [[0] * page for _ in range(requests + need + 1)]
    for i in range(requests):
        if i % 4:
            table[ids[i]] = [peer_ids[i] * page + offset for offset in range(page)]
    flat = [peer for row in table for peer in row]
    numbers = (prefixes, seqs, last, ids[requests:], peer_ids[requests:], [*flat, -1])
    made = [torch.tensor(each, dtype=torch.int64).to(place.device) for each in numbers]
    return Batch(made[0], made[1], made[2], made[3], made[4], made[5], sum(extends))
