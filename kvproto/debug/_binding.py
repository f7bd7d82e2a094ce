"""Which value of a call is which parameter of the protocol."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from inspect import BoundArguments, Parameter, Signature
from typing import cast

__all__ = ["named_as", "slots_of"]

_BY_POSITION = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


def named_as(wanted: Signature, bound: BoundArguments) -> Mapping[str, object]:
    """The values of a call under the names of `wanted`; those it has no name for are left out.

    `bound` is the call on the implementation, which may name positional parameters otherwise,
    take options of other protocols between them, or collect them in `*args` and `**kwargs`.
    """
    positional, keywords = _flattened(bound)
    values: dict[str, object] = {}
    for index, parameter in enumerate(wanted.parameters.values()):
        if parameter.kind in _BY_POSITION and index in positional:
            values[parameter.name] = positional[index]
        elif parameter.kind is not Parameter.POSITIONAL_ONLY and parameter.name in keywords:
            values[parameter.name] = keywords[parameter.name]
    return values


def slots_of(wanted: Signature, values: Mapping[str, object]) -> Iterator[tuple[int | str, str]]:
    """Where the named values stand in a call: `(position or keyword, name)`.

    Protocols that share a method may name a position differently; the slot is the same.
    """
    for index, parameter in enumerate(wanted.parameters.values()):
        if parameter.name in values:
            yield (index if parameter.kind in _BY_POSITION else parameter.name), parameter.name


def _flattened(bound: BoundArguments) -> tuple[dict[int, object], dict[str, object]]:
    """By position where the implementation has one, and by name wherever there is one."""
    positional: dict[int, object] = {}
    keywords: dict[str, object] = {}
    for index, parameter in enumerate(bound.signature.parameters.values()):
        if parameter.name not in bound.arguments:
            continue
        value = bound.arguments[parameter.name]
        if parameter.kind is Parameter.VAR_POSITIONAL:
            positional.update(enumerate(cast("tuple[object, ...]", value), start=index))
        elif parameter.kind is Parameter.VAR_KEYWORD:
            keywords.update(value)
        else:
            keywords[parameter.name] = value
            if parameter.kind in _BY_POSITION:
                positional[index] = value
    return positional, keywords
