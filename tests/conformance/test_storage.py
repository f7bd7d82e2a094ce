"""The memory that is a pool's own, wherever the pool keeps it."""

from __future__ import annotations

import torch

from kvproto.conformance.storage import Extent, counted_bytes, owned_bytes


class Index:
    """A part that holds tensors for a pool, and knows it."""

    def __init__(self, pool: object) -> None:
        self.pool = pool
        self.buffer = {"pages": [torch.zeros(8, 4)]}


class Pool:
    def __init__(self) -> None:
        self.rows = [torch.zeros(8, 2), torch.zeros(8, 2)]
        self.same = self.rows[0].view(16)
        self.narrow = torch.zeros(7)

    def get_kv_size_bytes(self) -> int:
        return 128


class Composite:
    def __init__(self, leaf: Pool) -> None:
        self.leaf = leaf
        self.table = torch.zeros(8)


def test_tensors_of_parts_are_the_pools() -> None:
    pool = Pool()
    assert owned_bytes(pool, 8) == 2 * 64
    pool.__dict__["index"] = Index(pool)
    assert owned_bytes(pool, 8) == 2 * 64 + 128


def test_the_leaves_of_a_composite_are_not_its_own() -> None:
    assert owned_bytes(Composite(Pool()), 8) == 32


MIB = 1 << 20


def test_what_keeps_planes_aligned_is_not_counted() -> None:
    """As much as an allocation may have around it: just less than twice the alignment."""
    planes = [
        Extent(storage=512, nbytes=6 * MIB, first=2 * MIB, last=4 * MIB + 1),
        Extent(storage=9 * MIB, nbytes=4 * MIB, first=10 * MIB, last=12 * MIB),
    ]
    assert counted_bytes(planes) == {512: 2 * MIB + 1, 9 * MIB: 2 * MIB}


def test_more_than_keeps_a_plane_aligned_is_counted() -> None:
    """Both begin at multiples of 512, so that nobody needs 1024 bytes to begin there."""
    planes = [
        Extent(storage=2 * MIB, nbytes=2048, first=2 * MIB, last=2 * MIB + 1024),
        Extent(storage=512, nbytes=100 * 1024, first=512, last=512 + 1024),
        Extent(storage=1 << 30, nbytes=1024, first=1 << 30, last=(1 << 30) + 1024),
    ]
    assert counted_bytes(planes) == {2 * MIB: 2048, 512: 100 * 1024, 1 << 30: 1024}


def test_nothing_around_the_tensors_is_nothing_to_judge() -> None:
    assert counted_bytes([Extent(64, 8, 64, 72)]) == {64: 8}
    assert counted_bytes([]) == {}
