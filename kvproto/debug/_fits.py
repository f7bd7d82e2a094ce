"""Is a value what an annotation says? Asked of beartype, which never sees a wrong answer's repr.

beartype's decorator is not used: under `python -O`, `@no_type_check` and its O0 strategy it
hands the function back unchecked and says nothing, and the message of a violation reprs the
tensor (tens of milliseconds, and on a device a wait). Its tester has neither trait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast, get_args, get_origin

from ._violation import CannotValidate

__all__ = ["Fits", "make_fits"]

Fits = Callable[[object, object], bool]


def make_fits() -> Fits:
    """The function `fits(value, hint)`, proven to refuse.

    An `int` fits `float`, as for type checkers. Every item of a list or tuple is looked at
    (beartype alone looks at a random one).

    :raises ImportError: when beartype is not installed.
    :raises CannotValidate: when beartype accepts what it must refuse.
    """
    is_bearable, conf = _import_beartype()

    def fits(value: object, hint: object) -> bool:
        if not is_bearable(value, hint, conf=conf):
            return False
        return all(fits(item, item_hint) for item, item_hint in _items(value, hint))

    if fits("", int) or fits([0, ""], list[int]) or not fits(0, float):
        raise CannotValidate(
            "beartype accepts a str as an int, so it would check nothing: it is switched off or "
            "replaced in this process; undo that, or unset KVPROTO_DEBUG"
        )
    return fits


def _import_beartype() -> tuple[Callable[..., bool], Any]:
    try:
        from beartype import BeartypeConf, door
    except ModuleNotFoundError as error:
        if error.name != "beartype":
            raise
        raise ImportError(
            "kvproto debug mode needs beartype: pip install 'kvproto[debug]'", name="beartype"
        ) from None
    return door.is_bearable, BeartypeConf(is_pep484_tower=True)


def _items(value: object, hint: object) -> Iterator[tuple[object, object]]:
    if not isinstance(value, (list, tuple)) or get_origin(hint) not in (list, tuple):
        return
    items = cast("Sequence[object]", value)
    hints = get_args(hint)
    if get_origin(hint) is list or (len(hints) == 2 and hints[1] is Ellipsis):
        hints = hints[:1] * len(items)
    yield from zip(items, hints, strict=True)
