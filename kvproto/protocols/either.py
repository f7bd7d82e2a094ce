"""One class for several, where code keeps a class object and asks it about others."""

from __future__ import annotations

__all__ = ["either"]


class _Either(type):
    _classes: tuple[type, ...]

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls._classes)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls._classes)


def either(*classes: type) -> type:
    """A class whose instances and subclasses are those of any of these; its name names them all.

    For `issubclass` before there is a pool: a pool class that assigns its members in `__init__`
    shows no capability yet, so an engine keeps its own class beside the capability. Unlike a tuple,
    it has a `__name__`.

    :raises TypeError: for no class, and for what is none.
    """
    if not classes or not all(isinstance(each, type) for each in classes):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"either() takes classes, at least one: {classes!r}")
    return _Either(" or ".join(each.__name__ for each in classes), (), {"_classes": classes})
