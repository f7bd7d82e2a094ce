"""What the checkers know after a question was asked."""

from __future__ import annotations

from typing import assert_type

from kvproto.protocols import KVLeaf, SWACapable, Transferable, adopt, require, supports
from typecheck.vendors.acme import AcmePool


def by_isinstance(pool: object) -> None:
    if isinstance(pool, SWACapable):
        assert_type(pool, SWACapable)
    else:
        assert_type(pool, object)


def by_supports(pool: object) -> None:
    if supports(pool, SWACapable):
        assert_type(pool, SWACapable)
    else:
        assert_type(pool, object)


def either(pool: object) -> None:
    if isinstance(pool, (SWACapable, Transferable)):
        assert_type(pool, SWACapable | Transferable)
    if isinstance(pool, SWACapable | Transferable):
        assert_type(pool, SWACapable | Transferable)


def by_require(pool: object) -> None:
    assert_type(require(pool, Transferable, for_="PD decode"), Transferable)


def by_class(cls: type[object]) -> None:
    # NOTE: mypy applies the rule of typing's own protocols; ours answer from declarations.
    if issubclass(cls, KVLeaf):  # type: ignore[misc]
        assert_type(cls, type[KVLeaf])


def adopted(pool: AcmePool) -> None:
    assert_type(adopt(pool), AcmePool)


def early_return(pool: object) -> SWACapable | None:
    if not supports(pool, SWACapable):
        return None
    return assert_type(pool, SWACapable)
