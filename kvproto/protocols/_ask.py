"""The questions a consumer asks of a pool."""

from __future__ import annotations

from typing import TypeVar

from typing_extensions import TypeForm, TypeIs

from ._capability import adopt_class, answers, forget_class, verdict_on

__all__ = ["CapabilityError", "adopt", "explain", "forget", "require", "supports"]

P = TypeVar("P")


class CapabilityError(TypeError):
    """A pool lacks a capability that a consumer cannot do without."""


def supports(obj: object, protocol: TypeForm[P], /) -> TypeIs[P]:
    """Has the object this capability? The same answer as `isinstance`, at half its cost."""
    try:
        # A form that is no class is no key either: KeyError, and the slow way below.
        answer = answers[protocol][type(obj)]  # type: ignore[index]  # pyright: ignore[reportArgumentType]
    except KeyError:
        pass
    else:
        if answer is True or answer is False:
            return answer
        return answer.holds_for(obj)
    # A protocol class is a form of a type; the checkers know forms, isinstance knows classes.
    return isinstance(obj, protocol)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def require(obj: object, protocol: TypeForm[P], /, *, for_: str) -> P:
    """The object itself, typed as having the capability; `for_` says who needs it.

    :raises CapabilityError: naming the class, the consumer and every reason, in one line.
    """
    if supports(obj, protocol):
        return obj
    reasons = "; ".join(explain(obj, protocol))
    raise CapabilityError(
        f"{for_} needs {_name(protocol)}, {type(obj).__name__} is not one: {reasons}"
    )


def explain(subject: object, protocol: TypeForm[object], /) -> list[str]:
    """Why `subject` lacks the capability, a line per reason; empty when it has it.

    `subject` is a pool, or a class, which is then judged by its declarations alone.
    """
    if not isinstance(protocol, type):
        raise TypeError(f"explain(..., {protocol!r}): the second argument is a protocol class")
    return verdict_on(subject, protocol)


def adopt(obj: P, /) -> P:
    """Let the answers of this object stand for its whole class; returns the object.

    For pools that assign their data members in `__init__` only: after it, their checks cost
    the same as those of a class that declares them, and `issubclass` agrees with `isinstance`.

    :raises CapabilityError: when the class was adopted through an object that answers otherwise.
    """
    try:
        adopt_class(obj)
    except ValueError as error:
        raise CapabilityError(str(error)) from None
    return obj


def forget(cls: type, /) -> None:
    """Drop what is remembered of a class and its subclasses.

    Needed only after members were patched into a class that had been asked about before.
    """
    forget_class(cls)


def _name(protocol: object) -> str:
    return protocol.__name__ if isinstance(protocol, type) else repr(protocol)


# torch.compile may not trace into the memo (it is emptied by the garbage collector and would be
# guarded by content): run these as they are and fold the result, guarded by the pool's identity.
for _question in (supports, require):
    setattr(_question, "_dynamo_marked_constant", True)  # noqa: B010  # no attribute to checkers
