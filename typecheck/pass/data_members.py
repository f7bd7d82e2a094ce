"""A data member may be a property, a plain attribute, a class attribute, or of a narrower type."""

from __future__ import annotations

from torch import Tensor

from kvproto.protocols import SizeReporting, SWACapable


class PropertyPool:
    @property
    def mem_usage(self) -> float:
        return 0.5

    def get_kv_size_bytes(self) -> tuple[int, int]:
        return 1, 1


class MutablePool:
    """What a protocol with mutable members would reject: an attribute, and of another type."""

    def __init__(self) -> None:
        self.mem_usage = 1

    def get_kv_size_bytes(self) -> int:
        return 1


class ClassAttributePool:
    mem_usage = 0.25

    def get_kv_size_bytes(self) -> int:
        return 1


class TableFromTheStart:
    """The protocol says `Tensor | None`; a pool that always has its table may say so."""

    full_to_swa_index_mapping: Tensor

    def register_mapping(self, full_to_swa_index_mapping: Tensor) -> None:
        self.full_to_swa_index_mapping = full_to_swa_index_mapping

    def translate_loc_from_full_to_swa(self, kv_indices: Tensor) -> Tensor:
        return self.full_to_swa_index_mapping[kv_indices]


by_property: type[SizeReporting] = PropertyPool
by_attribute: type[SizeReporting] = MutablePool
by_class_attribute: type[SizeReporting] = ClassAttributePool
narrower: type[SWACapable] = TableFromTheStart


def run() -> None:
    assert isinstance(PropertyPool(), SizeReporting)
    assert isinstance(MutablePool(), SizeReporting)
    assert isinstance(ClassAttributePool(), SizeReporting)
    assert isinstance(TableFromTheStart(), SWACapable)
