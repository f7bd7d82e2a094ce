"""The memory behind a pool's tensors, found without asking the pool."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import cast

import torch

from kvproto.protocols import FP4Workspace, KeyOnly, KVPool

from .memory import bytes_at

__all__ = [
    "Extent",
    "counted_bytes",
    "kept_bytes",
    "owned_bytes",
    "owned_storages",
    "storage_bytes",
    "tensors_of",
]


def owned_bytes(pool: object, slots: int) -> int:
    """Bytes of the storages behind all tensors the pool holds that have a row a slot (or page)."""
    return sum(owned_storages(pool, slots).values())


def kept_bytes(pool: object, slots: int) -> int:
    """The same without a workspace, whose content nobody keeps."""
    owned = owned_storages(pool, slots)
    if isinstance(pool, FP4Workspace):
        for scratch in pool.get_dequant_workspace():
            owned.pop(scratch.untyped_storage().data_ptr(), None)
    return sum(owned.values())


def owned_storages(pool: object, slots: int) -> dict[int, int]:
    """Their addresses, and the bytes of each.

    On a device without what lies around all tensors in a storage, where it keeps these aligned.
    """
    seen: dict[int, Extent] = {}
    for tensor in tensors_of(pool):
        if tensor.numel() >= slots:
            reach = _reach(tensor)
            before = seen.get(reach.storage, reach)
            first, last = min(before.first, reach.first), max(before.last, reach.last)
            seen[reach.storage] = replace(reach, first=first, last=last)
    return counted_bytes(list(seen.values()))


@dataclass(frozen=True, slots=True)
class Extent:
    """A storage of `nbytes` from `storage` on, and the tensors there: from `first` up to `last`."""

    storage: int
    nbytes: int
    first: int
    last: int

    @property
    def spare(self) -> int:
        """Bytes of the storage around its tensors."""
        return self.nbytes - (self.last - self.first)


def counted_bytes(extents: Sequence[Extent]) -> dict[int, int]:
    """The bytes of each storage, by its address.

    Whoever aligns a first byte to `n` bytes, and registers up to a multiple of `n`, needs less than
    `2 * n` around the tensors. `n` is no more than what all these first bytes are multiples of: the
    bytes of a storage with more around its tensors are all counted.
    """
    bits = 0
    for extent in extents:
        bits |= extent.first if extent.spare else 0
    alignment = bits & -bits
    return {
        each.storage: each.nbytes if each.spare >= 2 * alignment else each.last - each.first
        for each in extents
    }


def _reach(tensor: torch.Tensor) -> Extent:
    """From the first to past the last byte of a tensor; in host memory, of its storage."""
    storage = tensor.untyped_storage()
    start, nbytes = storage.data_ptr(), storage.nbytes()
    if tensor.device.type == "cpu":
        return Extent(start, nbytes, start, start + nbytes)
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    elements = 1 + sum((extent - 1) * stride for extent, stride in steps)
    first = tensor.data_ptr()
    return Extent(start, nbytes, first, first + elements * tensor.itemsize)


def tensors_of(owner: object, seen: set[int] | None = None) -> Iterable[torch.Tensor]:
    """What an object holds, in lists, tuples and dictionaries, and what its parts hold.

    A part is an object of a class from the same module or a sibling of it, that is no pool itself.
    """
    seen = set() if seen is None else seen
    seen.add(id(owner))
    for value in _flat(list(vars(owner).values())):
        if isinstance(value, torch.Tensor):
            yield value
        elif id(value) not in seen and _is_part(value, owner):
            yield from tensors_of(value, seen)


def _is_part(value: object, owner: object) -> bool:
    """Of a composite the leaves are no parts: they own their rows, and are looked at themselves."""
    package = type(owner).__module__.rpartition(".")[0]
    theirs = type(value).__module__.rpartition(".")[0]
    is_pool = isinstance(value, type) or hasattr(type(value), "get_kv_size_bytes")
    return bool(package) and package == theirs and hasattr(value, "__dict__") and not is_pool


def _flat(value: object) -> Iterable[object]:
    """The value, or what lists, tuples, dictionaries and pools in a pool hold, however deep."""
    if isinstance(value, (KVPool, KeyOnly)):
        value = vars(value)
    if isinstance(value, dict):
        value = list(cast("dict[object, object]", value).values())
    if not isinstance(value, (list, tuple)):
        return (value,)
    return [each for part in cast("Iterable[object]", value) for each in _flat(part)]


def storage_bytes(pool: object, slots: int) -> dict[int, torch.Tensor]:
    """Copies of what is in those storages, uint8 by address."""
    large = (tensor for tensor in tensors_of(pool) if tensor.numel() >= slots)
    storages = {s.data_ptr(): s.nbytes() for s in (tensor.untyped_storage() for tensor in large)}
    return {address: bytes_at(address, nbytes) for address, nbytes in storages.items() if nbytes}
