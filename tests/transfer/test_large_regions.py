"""A region of more than 2 GiB, in a sparse file: addresses are not cut to 31 or 32 bits."""

from __future__ import annotations

import ctypes
import mmap
import tempfile
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from kvproto.protocols import BufferRegion
from kvproto.reference import MLALeaf, PageAllocator
from kvproto.transfer import TransferEngine, describe
from kvproto.transfer.demo.pools import DemoPool
from kvproto.transfer.engines.local_engine import LocalEngine
from kvproto.transfer.engines.nixl_engine import NixlEngine
from kvproto.transfer.session import PageNumbers, Receiver, Reservation, Sender, register_pools
from tests.transfer.sessions import LINGER, Side, linked

GIB = 1 << 30
PAGES = 5 * GIB // (64 * 1152)
"""Pages of 64 latent rows, in over 5 GiB."""


def sparse(owner: str, engine: TransferEngine) -> tuple[Side, mmap.mmap]:
    """A small pool's manifest, whose one region lies in a file without a block."""
    leaf = MLALeaf(
        size=64,
        page_size=64,
        dtype=torch.bfloat16,
        kv_lora_rank=512,
        qk_rope_head_dim=64,
        layer_num=1,
        device="cpu",
    )
    nbytes = PAGES * 64 * 1152
    with tempfile.TemporaryFile() as file:
        file.truncate(nbytes)
        memory = mmap.mmap(file.fileno(), nbytes)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    manifest = describe(leaf, owner=owner)
    part = manifest.pools[0]
    region: BufferRegion = replace(part.regions[0].region, bases=(base,), page_count=PAGES)
    part = replace(part, regions=(replace(part.regions[0], region=region),))
    manifest = replace(manifest, pools=(part,))
    register_pools(engine, manifest)
    allocator = PageAllocator(64, 64, torch.bfloat16, "cpu", leaf, need_sort=True)
    return Side(DemoPool(leaf, allocator), manifest, engine), memory


@pytest.mark.parametrize("engine", [LocalEngine, NixlEngine], ids=["local", "nixl"])
def test_pages_beyond_two_and_four_gib_arrive(engine: Callable[[], TransferEngine]) -> None:
    prefill, source = sparse("prefill", engine())
    decode, target = sparse("decode", engine())
    ends = linked(prefill, decode)
    sender, receiver = Sender(ends[0], linger=LINGER), Receiver([ends[1]], linger=LINGER)
    here, there = np.array([PAGES - 1, 3, PAGES // 2 + 1]), np.array([5, PAGES - 1, PAGES // 2 + 2])
    page = np.random.default_rng(1).integers(1, 256, (3, 64 * 1152), np.uint8)
    for row, at in zip(page, here.tolist(), strict=True):
        source[at * row.size : (at + 1) * row.size] = row.tobytes()
    pages: PageNumbers = {"full": there}
    receiving = receiver.receive(
        "far", lambda: Reservation(pages, lambda: None, 192, torch.empty(0))
    )
    sending = sender.send("far", {"full": here})
    while not (sending.is_settled and receiving.is_settled):
        sender.poll()
        receiver.poll()
    assert receiving.take().pages is pages
    for row, at in zip(page, there.tolist(), strict=True):
        assert target[at * row.size : (at + 1) * row.size] == row.tobytes()
    sender.close()
    receiver.close()
    prefill.engine.close()
    decode.engine.close()
