"""Proof that a wrapper checks: a deliberately wrong call must be refused."""

from __future__ import annotations

from inspect import Parameter, Signature

from ._checked import Checks, checked_method
from ._violation import ContractViolation

__all__ = ["refuses"]


class _Alien:
    """Fits no annotation but those that allow everything."""


def refuses(checks: Checks) -> bool:
    """Does a wrapper with these checks refuse aliens, as arguments or as the result?

    The pool is not called. True also for members whose annotations allow everything.
    """
    signature = checks.contracts[0].signature or Signature()
    positional, keywords = _alien_arguments(signature)
    method = checked_method(lambda *_, **__: _Alien(), checks)
    try:
        method(_Alien(), *positional, **keywords)
    except ContractViolation:
        return True
    hints = (hint for contract in checks.contracts for hint in contract.hints.values())
    return all(checks.fits(_Alien(), hint) for hint in hints)


def _alien_arguments(signature: Signature) -> tuple[list[_Alien], dict[str, _Alien]]:
    required = [p for p in signature.parameters.values() if p.default is Parameter.empty]
    by_keyword = [p.name for p in required if p.kind is Parameter.KEYWORD_ONLY]
    by_position = len(required) - len(by_keyword)
    return [_Alien() for _ in range(by_position)], {name: _Alien() for name in by_keyword}
