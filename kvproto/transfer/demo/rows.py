"""Bytes of demo pools: random ones put in, and a digest of rows that goes through no address."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import cast

import numpy as np
import torch

from kvproto.protocols import HostCopyable, require

from ..manifests.manifest import PoolManifest
from ..session.reservation import Reservation
from .pools import DemoPool

__all__ = ["digest_of_rows", "fill_at_random"]


def fill_at_random(manifest: PoolManifest, seed: int) -> None:
    """Random bytes in every page of every region."""
    numbers = np.random.default_rng(seed)
    for each in (region for part in manifest.pools for region in part.regions):
        for base in each.region.bases:
            nbytes = each.region.page_count * each.region.page_stride
            ctypes.memmove(base, numbers.bytes(nbytes), nbytes)


def digest_of_rows(held: DemoPool, taken: Reservation) -> str:
    """SHA-256 of what the pool itself says is in the rows of a reservation, in token order.

    Rows are read through `HostCopyable`, as a host tier reads them: by slot, not by page.
    """
    pool = require(held.pool, HostCopyable, for_="the demo")
    rows = pool.get_cpu_copy(taken.slots[: taken.tokens], mamba_indices=taken.state_slots)
    digest = hashlib.sha256()
    for tensor in _tensors(rows):
        digest.update(tensor.contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _tensors(copied: object) -> Iterator[torch.Tensor]:
    """A host copy is opaque; those of the reference pools are made of these."""
    if isinstance(copied, torch.Tensor):
        yield copied
    elif isinstance(copied, tuple):
        for each in cast("tuple[object, ...]", copied):
            yield from _tensors(each)
    elif is_dataclass(copied):
        for each in fields(copied):
            yield from _tensors(getattr(copied, each.name))
