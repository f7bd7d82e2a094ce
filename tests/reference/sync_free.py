"""A mode in which an operation that waits for device data, or is shaped by it, raises."""

from __future__ import annotations

from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["SyncFree"]

_WAITING = {
    "aten::nonzero",
    "aten::masked_select",
    "aten::_local_scalar_dense",
    "aten::_unique2",
    "aten::unique_dim",
    "aten::unique_consecutive",
}
_INDEXED = {"aten::index", "aten::index_put", "aten::index_put_"}


class SyncFree(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch has no types here
    """Raises `AssertionError` at the first such operation."""

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        name = func._schema.name
        assert name not in _WAITING, name
        if name in _INDEXED:
            assert all(i is None or not str(i.dtype).endswith("bool") for i in args[1]), name
        return func(*args, **(kwargs or {}))
