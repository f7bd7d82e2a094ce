"""The memory that is a pool's own, wherever the pool keeps it."""

from __future__ import annotations

import torch

from kvproto.conformance.storage import owned_bytes


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
