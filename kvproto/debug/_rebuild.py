"""How a pickled pool is made again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["reduce_as"]


def reduce_as(plain: Any) -> Callable[[Any, Any], Any]:
    """A `__reduce_ex__` that pickles and copies a pool of a generated class as one of `plain`.

    Pickle finds classes by name, and by the pool's name it finds the plain one.
    """

    def __reduce_ex__(self: Any, version: Any) -> Any:
        reduced: str | tuple[Any, ...] = plain.__reduce_ex__(self, version)
        if isinstance(reduced, str):
            return reduced
        made_by, arguments, *rest = reduced
        parts = [plain if part is type(self) else part for part in (made_by, *arguments)]
        return (_rebuild, tuple(parts), *rest)

    return __reduce_ex__


def _rebuild(made_by: Callable[..., object], *arguments: object) -> object:
    # Pickle itself refuses `copyreg.__newobj__` for a class that is not the object's own.
    return made_by(*arguments)
