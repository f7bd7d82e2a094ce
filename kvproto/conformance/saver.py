"""A stand-in for the package `torch_memory_saver` that writes down what is allocated when."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

__all__ = ["RecordedAllocations", "recorded_allocations", "recording"]

_PACKAGE = "torch_memory_saver"


class RecordedAllocations:
    """Address of each storage -> the tag of the region it was allocated in, None outside."""

    def __init__(self) -> None:
        self.tags: dict[int, str | None] = {}
        self.entered: list[str] = []
        self._kept: list[object] = []  # a freed address could be given out again

    def within(self, tag: str) -> set[int]:
        """The storages that were allocated in regions of that tag."""
        return {address for address, found in self.tags.items() if found == tag}

    @contextmanager
    def region(self, tag: str = "default", *_: object, **__: object) -> Generator[None]:
        """The saver's own method: what is allocated inside can be paused under the tag."""
        self.entered.append(tag)
        try:
            yield
        finally:
            self.entered.pop()

    def note(self, tensor: torch.Tensor) -> None:
        """A tensor that an operation returned and that was not among its arguments."""
        storage = tensor.untyped_storage()
        if storage.nbytes() and storage.data_ptr() not in self.tags:
            self.tags[storage.data_ptr()] = self.entered[-1] if self.entered else None
            self._kept.append(storage)


@contextmanager
def recorded_allocations() -> Generator[RecordedAllocations]:
    """Put the stand-in where pools import the saver from, and record until the end."""
    recorded = RecordedAllocations()
    package = ModuleType(_PACKAGE)
    package.__dict__["torch_memory_saver"] = recorded
    before = sys.modules.get(_PACKAGE)
    sys.modules[_PACKAGE] = package
    try:
        recorder = _Recorder()  # type: ignore[no-untyped-call]  # as below
        recorder.recorded = recorded
        with recorder:
            yield recorded
    finally:
        del sys.modules[_PACKAGE]
        if before is not None:
            sys.modules[_PACKAGE] = before


def recording() -> bool:
    """Is this inside `recorded_allocations`?"""
    stand_in = sys.modules.get(_PACKAGE)
    found = None if stand_in is None else vars(stand_in).get("torch_memory_saver")
    return isinstance(found, RecordedAllocations)


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch has no types here
    recorded: RecordedAllocations

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        given = {_address(each) for each in tree_leaves((args, kwargs))}
        for each in tree_leaves(result):
            if isinstance(each, torch.Tensor) and _address(each) not in given:
                self.recorded.note(each)
        return result


def _address(value: object) -> int | None:
    if not isinstance(value, torch.Tensor) or value.is_meta:
        return None
    return value.untyped_storage().data_ptr()
