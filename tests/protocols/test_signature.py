"""The signature comparison against Python's own argument binding, on generated signatures."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterator
from inspect import Parameter, Signature
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvproto.protocols._signature import is_called_synchronously, mismatches, without_self

NAMES = ("a", "b", "c", "d")
ORDER = {
    kind: rank
    for rank, kind in enumerate(
        (
            Parameter.POSITIONAL_ONLY,
            Parameter.POSITIONAL_OR_KEYWORD,
            Parameter.VAR_POSITIONAL,
            Parameter.KEYWORD_ONLY,
            Parameter.VAR_KEYWORD,
        )
    )
}


@st.composite
def signatures(draw: st.DrawFn, *, variadic: bool) -> Signature:
    names = draw(st.permutations(NAMES))[: draw(st.integers(0, 4))]
    kinds = st.sampled_from(
        (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    )
    parameters = [
        Parameter(name, draw(kinds), default=draw(st.sampled_from((Parameter.empty, 0))))
        for name in names
    ]
    if variadic and draw(st.booleans()):
        parameters.append(Parameter("args", Parameter.VAR_POSITIONAL))
    if variadic and draw(st.booleans()):
        parameters.append(Parameter("kwargs", Parameter.VAR_KEYWORD))
    parameters.sort(key=lambda p: ORDER[p.kind])
    required_first = [
        sorted(group, key=lambda p: p.default is not Parameter.empty)
        if kind is not Parameter.KEYWORD_ONLY
        else list(group)
        for kind, group in itertools.groupby(parameters, key=lambda p: p.kind)
    ]
    seen_default = False
    fixed: list[Parameter] = []
    for p in itertools.chain.from_iterable(required_first):
        positional = p.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
        fixed.append(p.replace(default=0) if positional and seen_default else p)
        seen_default = seen_default or (positional and p.default is not Parameter.empty)
    return Signature(fixed)


def legal_calls(wanted: Signature) -> Iterator[tuple[list[str], list[str]]]:
    """Every way to call `wanted`: names passed by position, names passed by keyword."""
    positional = [p for p in wanted.parameters.values() if p.kind is not Parameter.KEYWORD_ONLY]
    keyword = [p for p in wanted.parameters.values() if p.kind is Parameter.KEYWORD_ONLY]
    for count in range(len(positional) + 1):
        rest = positional[count:] + keyword
        may_name = [p for p in rest if p.kind is not Parameter.POSITIONAL_ONLY]
        for size in range(len(may_name) + 1):
            for named in itertools.combinations(may_name, size):
                left_out = [p for p in rest if p not in named]
                if all(p.default is not Parameter.empty for p in left_out):
                    yield [p.name for p in positional[:count]], [p.name for p in named]


def lands(found: Signature, by_position: list[str], by_keyword: list[str]) -> dict[str, str] | None:
    """Where each passed value ends up in `found`; None when Python refuses the call."""
    try:
        arguments = function_of(found)(*by_position, **{name: name for name in by_keyword})
    except TypeError:
        return None
    where: dict[str, str] = {}
    for name, value in arguments.items():
        if found.parameters[name].kind is Parameter.VAR_POSITIONAL:
            where |= dict.fromkeys(value, "*")
        elif found.parameters[name].kind is Parameter.VAR_KEYWORD:
            where |= dict.fromkeys(value.values(), "*")
        elif value != 0:
            where[value] = name
    return where


@functools.cache
def function_of(signature: Signature) -> Callable[..., dict[str, Any]]:
    """A real function of that signature that returns its arguments (`bind` has bugs of its own)."""
    namespace: dict[str, Any] = {}
    exec(f"def f{signature}: return locals()", namespace)
    made: Callable[..., dict[str, Any]] = namespace["f"]
    return made


def accepts_all(wanted: Signature, found: Signature) -> bool:
    """Does `found` take every legal call, each value always to the same place?"""
    places: dict[str, set[str]] = {}
    for by_position, by_keyword in legal_calls(wanted):
        where = lands(found, by_position, by_keyword)
        if where is None:
            return False
        for value, place in where.items():
            places.setdefault(value, set()).add(place)
    return all(len(where - {"*"}) <= 1 for where in places.values())


@settings(max_examples=1500, deadline=None)
@given(signatures(variadic=False), signatures(variadic=True))
def test_agrees_with_python_on_every_legal_call(wanted: Signature, found: Signature) -> None:
    faults = mismatches(wanted, found)
    if accepts_all(wanted, found):
        # A name that callers may use must be that parameter's own name; Python's binding alone
        # cannot tell a `*args` or a same-place swap from a match.
        assert not faults or _same_calls_other_meaning(wanted, found), faults
    else:
        assert faults


def _same_calls_other_meaning(wanted: Signature, found: Signature) -> bool:
    """A parameter callers may name that `found` calls otherwise at that position."""
    by_index = list(found.parameters.values())
    for index, p in enumerate(wanted.parameters.values()):
        if p.kind is not Parameter.POSITIONAL_OR_KEYWORD:
            continue
        at = by_index[index] if index < len(by_index) else p
        if at.name != p.name or at.kind is Parameter.POSITIONAL_ONLY:
            return True
    return False


@settings(max_examples=300, deadline=None)
@given(signatures(variadic=False))
def test_a_signature_accepts_its_own_calls(wanted: Signature) -> None:
    assert mismatches(wanted, wanted) == []


def signature_of(source: str) -> Signature:
    namespace: dict[str, Any] = {}
    exec(f"def f({source}): ...", namespace)
    return inspect.signature(namespace["f"])


@pytest.mark.parametrize(
    ("wanted", "found", "words"),
    [
        ("layer_id, loc", "layer, loc", "parameter 1 is named 'layer', callers name it 'layer_id'"),
        ("a, b, c, d, /", "a, b, c", "takes 3 positional arguments, callers pass 4"),
        ("a, /", "a, cache_label", "needs an extra argument 'cache_label'"),
        ("a, /, *, scale=None", "a, *, scale", "'scale' has no default"),
        ("a, /, mamba=None", "a", "has no parameter 'mamba', which callers pass"),
        ("a, /, *, mask=None", "a", "has no parameter 'mask', which callers pass"),
        ("a, b=None", "a, *, b=None", "'b' is keyword-only, callers pass it by position"),
        ("a", "a, /", "'a' is positional-only, callers pass it by keyword"),
        ("a, /, *, k=None", "k, a=0", "'k' is parameter 1, already passed by position"),
        ("a, /, k=None", "a, over=None", "parameter 2 is named 'over', callers name it 'k'"),
    ],
)
def test_says_what_is_wrong(wanted: str, found: str, words: str) -> None:
    faults = mismatches(signature_of(wanted), signature_of(found))
    assert any(words in fault for fault in faults), faults


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("layer, loc, k, v, /", "l, loc_info, ck, cv, k_scale=None, v_scale=None"),
        ("layer, loc, k, v, /", "*args, **kwargs"),
        ("a, /, *, k=None", "a, **options"),
        ("a, /, *, k=None", "a, b=0, k=None"),
        ("", "extra=3"),
    ],
)
def test_accepts_more_than_is_asked(wanted: str, found: str) -> None:
    assert mismatches(signature_of(wanted), signature_of(found)) == []


class Methods:
    def plain(self, a: int, b: int = 0) -> None: ...
    async def coroutine(self) -> None: ...
    def generator(self) -> Iterator[int]:
        yield 1

    partial = functools.partialmethod(plain, 1)

    @functools.wraps(plain)
    def wrapped(self, *args: int, **kwargs: int) -> None: ...


@pytest.mark.parametrize(
    ("name", "expected"), [("plain", "(a, b=0)"), ("partial", "(b=0)"), ("wrapped", "(a, b=0)")]
)
def test_the_signature_a_bound_call_sees(name: str, expected: str) -> None:
    found = without_self(vars(Methods)[name])
    assert found is not None
    bare = [p.replace(annotation=Parameter.empty) for p in found.parameters.values()]
    assert str(Signature(bare)) == expected


def test_what_has_no_readable_signature_is_taken_on_trust() -> None:
    assert without_self(dict.fromkeys) is not None
    assert without_self(type) is None or isinstance(without_self(type), Signature)


def test_async_and_generator_functions_are_told_apart() -> None:
    assert is_called_synchronously(Methods.plain)
    assert not is_called_synchronously(Methods.coroutine)
    assert not is_called_synchronously(Methods.generator)
