"""Would every call that a protocol allows be accepted by this implementation?"""

from __future__ import annotations

import functools
import inspect
from inspect import Parameter, Signature
from typing import Any

__all__ = ["is_called_synchronously", "mismatches", "without_self"]

_BY_POSITION = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


def without_self(method: Any) -> Signature | None:
    """The signature a caller of the bound method sees, or None where Python cannot tell.

    Nothing is called or bound: a plain function loses its first parameter, a `partialmethod`
    its first and the filled ones, any other callable keeps them all.
    """
    try:
        if isinstance(method, functools.partialmethod):
            function: Any = method.func
            return inspect.signature(
                functools.partial(function, None, *method.args, **method.keywords)
            )
        signature = inspect.signature(method)
    except (TypeError, ValueError):
        return None
    if not inspect.isroutine(method):
        return signature
    parameters = list(signature.parameters.values())
    if parameters and parameters[0].kind in _BY_POSITION:
        parameters = parameters[1:]
    return signature.replace(parameters=parameters)


def is_called_synchronously(method: object) -> bool:
    """False for coroutine, generator and async generator functions: their call does no work."""
    function = inspect.unwrap(method) if callable(method) else method
    return not (
        inspect.iscoroutinefunction(function)
        or inspect.isasyncgenfunction(function)
        or inspect.isgeneratorfunction(function)
    )


def mismatches(wanted: Signature, found: Signature) -> list[str]:
    """Why calls made through `wanted` would fail on, or mean something else to, `found`.

    Positional-only names are free; a name that callers may pass by keyword must match at its
    position; an optional parameter must be optional in `found`; `found` may not need more.
    `*args` and `**kwargs` of `found` accept what they can carry. Empty when all calls fit.
    """
    by_position = [p for p in wanted.parameters.values() if p.kind in _BY_POSITION]
    by_keyword = [p for p in wanted.parameters.values() if p.kind is Parameter.KEYWORD_ONLY]
    taker = _Taker(found, taken=len(by_position))
    faults = [
        fault
        for index, parameter in enumerate(by_position)
        for fault in taker.by_position(index, parameter)
    ]
    faults += [fault for parameter in by_keyword for fault in taker.by_keyword(parameter)]
    return faults + taker.needs_more({parameter.name for parameter in by_keyword})


class _Taker:
    """The implementation's side of a call: what it takes by position and by keyword."""

    def __init__(self, found: Signature, taken: int) -> None:
        parameters = list(found.parameters.values())
        self.positional = [p for p in parameters if p.kind in _BY_POSITION]
        self.keyword_only = {p.name: p for p in parameters if p.kind is Parameter.KEYWORD_ONLY}
        self.any_position = any(p.kind is Parameter.VAR_POSITIONAL for p in parameters)
        self.any_keyword = any(p.kind is Parameter.VAR_KEYWORD for p in parameters)
        self.nameable = {
            p.name for p in self.positional if p.kind is Parameter.POSITIONAL_OR_KEYWORD
        }
        self.taken = taken

    def by_position(self, index: int, wanted: Parameter) -> list[str]:
        if index >= len(self.positional):
            return self._beyond_positions(wanted)
        found = self.positional[index]
        faults: list[str] = []
        if wanted.kind is Parameter.POSITIONAL_OR_KEYWORD:
            if found.name != wanted.name:
                return [
                    f"parameter {index + 1} is named '{found.name}', "
                    f"callers name it '{wanted.name}'"
                ]
            if found.kind is Parameter.POSITIONAL_ONLY:
                faults.append(f"'{found.name}' is positional-only, callers pass it by keyword")
        return faults + _missing_default(wanted, found)

    def _beyond_positions(self, wanted: Parameter) -> list[str]:
        named = wanted.kind is Parameter.POSITIONAL_OR_KEYWORD
        if named and wanted.name in self.nameable:
            return [f"parameter '{wanted.name}' comes earlier than callers pass it"]
        by_name = wanted.name in self.keyword_only or self.any_keyword
        if self.any_position and (by_name or not named):
            keyword = self.keyword_only.get(wanted.name)
            return _missing_default(wanted, keyword) if named and keyword else []
        if named and wanted.name in self.keyword_only:
            return [f"'{wanted.name}' is keyword-only, callers pass it by position"]
        if named:
            return [f"has no parameter '{wanted.name}', which callers pass"]
        return [
            f"takes {len(self.positional)} positional arguments, callers pass {self.taken} "
            f"('{wanted.name}' has no place)"
        ]

    def by_keyword(self, wanted: Parameter) -> list[str]:
        if wanted.name in self.keyword_only:
            return _missing_default(wanted, self.keyword_only[wanted.name])
        for index, found in enumerate(self.positional):
            if found.name != wanted.name or found.name not in self.nameable:
                continue
            if index < self.taken:
                return [f"'{wanted.name}' is parameter {index + 1}, already passed by position"]
            return _missing_default(wanted, found)
        return [] if self.any_keyword else [f"has no parameter '{wanted.name}', which callers pass"]

    def needs_more(self, by_keyword: set[str]) -> list[str]:
        later = self.positional[self.taken :]
        unfilled = [p for p in later if p.kind is Parameter.POSITIONAL_ONLY]
        unfilled += [p for p in later if p not in unfilled and p.name not in by_keyword]
        unfilled += [p for p in self.keyword_only.values() if p.name not in by_keyword]
        return [
            f"needs an extra argument '{p.name}', which no caller passes"
            for p in unfilled
            if p.default is Parameter.empty
        ]


def _missing_default(wanted: Parameter, found: Parameter) -> list[str]:
    if wanted.default is not Parameter.empty and found.default is Parameter.empty:
        return [f"'{found.name}' has no default, callers may leave it out"]
    return []
