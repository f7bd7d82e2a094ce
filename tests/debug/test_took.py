"""A check that did not take is worse than none: it is found and said."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from kvproto.debug import CannotValidate, validate
from tests.debug.toy import ToyPool


class Fresh(ToyPool):
    """A class without generated subclasses: the self-tests run when one is made."""


def let_through(*_: Any, **__: Any) -> bool:
    return True


def test_a_beartype_that_accepts_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beartype.door.is_bearable", let_through)
    with pytest.raises(CannotValidate, match="accepts a str as an int, so it would check nothing"):
        validate(Fresh())


def test_a_wrapper_that_lets_calls_through(monkeypatch: pytest.MonkeyPatch) -> None:
    def transparent(call: Any, _: Any) -> Any:
        return call

    monkeypatch.setattr("kvproto.debug._probe.checked_method", transparent)
    pool = Fresh()
    with pytest.raises(CannotValidate, match="did not take: a wrong call was let through"):
        validate(pool)
    assert type(pool) is Fresh
    assert pool.calls == []


def test_a_wrapper_that_is_the_method_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def same(_: type, checks: Any) -> Any:
        return vars(ToyPool).get(checks.name)

    monkeypatch.setattr("kvproto.debug._swap._wrapped", same)
    with pytest.raises(CannotValidate, match=r"validate\(Fresh\): the checks of \w+ did not take"):
        validate(Fresh())


def test_without_beartype_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "beartype", None)
    monkeypatch.delitem(sys.modules, "beartype.door", raising=False)
    with pytest.raises(ImportError, match=r"needs beartype: pip install 'kvproto\[debug\]'$"):
        validate(Fresh())
