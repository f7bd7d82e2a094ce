"""Sessions of two sides whose pages lie otherwise, small; and what the leaves themselves read."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch

from kvproto.protocols import HostCopyable, MHALeafRequest, require
from kvproto.reference import PageAllocator
from kvproto.reference.build_any import build_reference
from kvproto.transfer import TransferEngine, describe
from kvproto.transfer.demo.pools import DemoPool
from kvproto.transfer.demo.rows import _tensors
from kvproto.transfer.engines.local_engine import LocalEngine
from kvproto.transfer.session import (
    Receiver,
    Reservation,
    Sender,
    StagingOptions,
    register_pools,
)
from tests.transfer.pools import fill
from tests.transfer.sessions import LINGER, Session, Side, linked

__all__ = ["PAGE_BYTES", "converting", "heads_pool", "paged", "rows", "side"]

PAGE_BYTES = 3 * 16 * 2 * (32 + 16) * 2
"""Staged for one page: 3 layers of 16 tokens of 2 heads, keys and values, of 2 bytes each."""


def heads_pool(layout: Any, page_size: int = 16, **asked: Any) -> Any:
    """A leaf of keys and values by head."""
    sizes: dict[str, Any] = {
        "head_num": 2,
        "head_dim": 32,
        "v_head_dim": 16,
        "layer_num": 3,
    } | asked
    request = MHALeafRequest(
        size=192, page_size=page_size, dtype=torch.bfloat16, layout=layout, device="cpu", **sizes
    )
    return build_reference(request)


def paged(
    pool: Any, owner: str, seed: int, engine: TransferEngine | None = None, **told: Any
) -> Side:
    """One side, with a pool that lends its full pages by an allocator of its size."""
    fill(pool, seed)
    engine = engine or LocalEngine()
    manifest = describe(pool, owner=owner, conversion="staging", **told)
    register_pools(engine, manifest)
    page_size = manifest.pool("target").page_size
    allocator = PageAllocator(pool.size, page_size, torch.bfloat16, "cpu", pool, need_sort=False)
    return Side(DemoPool(pool, allocator), manifest, engine)


def side(layout: Any, owner: str, seed: int, engine: TransferEngine | None = None) -> Side:
    """One side of `converting`."""
    return paged(heads_pool(layout), owner, seed, engine)


@contextmanager
def converting(
    prefill: Side, decode: Side, most_bytes: int = 1 << 20, **sender: Any
) -> Generator[Session]:
    """Both sides linked, the receiver with so much staging memory; closed at the end."""
    ends = linked(prefill, decode)
    staging = StagingOptions(device="cpu", most_bytes=most_bytes)
    made = Session(
        prefill,
        decode,
        Sender(ends[0], linger=LINGER, **sender),
        Receiver([ends[1]], linger=LINGER, staging=staging),
    )
    try:
        yield made
    finally:
        made.sender.close()
        made.receiver.close()
        for each in (prefill, decode):
            each.engine.close()


def rows(held: Side, taken: Reservation) -> list[torch.Tensor]:
    """What the pool itself says is in the rows of a reservation: bytes, `[tokens, n]` a buffer."""
    pool = require(held.held.pool, HostCopyable, for_="the test")
    found = _tensors(pool.get_cpu_copy(taken.slots[: taken.tokens]))
    return [each.reshape(len(each), -1).contiguous().view(torch.uint8) for each in found]
