"""The memory behind a pool's tensors, found without asking the pool."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import torch

__all__ = ["owned_bytes"]


def owned_bytes(pool: object, slots: int) -> int:
    """Bytes of the storages behind all tensors the pool holds that have a row a slot (or page)."""
    seen: dict[int, int] = {}
    for value in vars(pool).values():
        for tensor in _flat(value):
            if isinstance(tensor, torch.Tensor) and tensor.numel() >= slots:
                storage = tensor.untyped_storage()
                seen[storage.data_ptr()] = storage.nbytes()
    return sum(seen.values())


def _flat(value: object) -> Iterable[object]:
    return cast("Iterable[object]", value) if isinstance(value, (list, tuple)) else (value,)
