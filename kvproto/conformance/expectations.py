"""What a vendor says of its pools before the run: claims, and failures it knows of."""

from __future__ import annotations

import datetime
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kvproto._bad_input import BadInput

from .capabilities import capability_named
from .law import LAWS
from .report import LawResult

__all__ = [
    "Claims",
    "ExpectedFailure",
    "apply_expectations",
    "claims_of",
    "expected_failures",
    "load_expected_failures",
]


@dataclass(frozen=True, slots=True)
class ExpectedFailure:
    """A law that is known to be broken: why, and until when that is acceptable."""

    reason: str
    until: datetime.date | None = None


@dataclass(frozen=True, slots=True)
class Claims:
    """What the vendor says its pools can do, and cannot, with reasons; names of capabilities.

    `stated` is None where nothing was said: then detection is not compared with anything.
    """

    stated: frozenset[str] | None
    cannot: Mapping[str, str]

    @property
    def silent(self) -> bool:
        """Was nothing said?"""
        return self.stated is None and not self.cannot


def claims_of(claims: Iterable[str] | None, cannot: Mapping[str, str] | None) -> Claims:
    """Check the names.

    :raises BadInput: for an unknown capability, one that is in both, and an empty reason.
    """
    stated = None if claims is None else frozenset(claims)
    denied = dict(cannot or {})
    for name in (*(stated or ()), *denied):
        capability_named(name)
    for name, reason in denied.items():
        if not reason.strip():
            raise BadInput(f"cannot[{name}]: say why the pool cannot")
        if stated and name in stated:
            raise BadInput(f"{name} is claimed, and said to be impossible: {reason}")
    return Claims(stated, denied)


def expected_failures(given: Mapping[str, Any] | None) -> dict[str, ExpectedFailure]:
    """From law id to a reason, or to `{"reason": ..., "until": date}`.

    :raises BadInput: for an unknown law, a missing reason, a wrong date and one that has passed.
    """
    return {law: _expected(law, value) for law, value in (given or {}).items()}


def load_expected_failures(path: str) -> dict[str, Any]:
    """Read them from TOML: a table per law id, with `reason` and perhaps `until`.

    :raises BadInput: when the file cannot be read or is not TOML.
    """
    try:
        return tomllib.loads(Path(path).read_text())
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise BadInput(f"{path}: {error}") from None


def _expected(law: str, value: Any) -> ExpectedFailure:
    if law not in LAWS:
        raise BadInput(
            f"expected failure of '{law}': no law has that id, `kvproto laws` lists them"
        )
    entry = {"reason": value} if isinstance(value, str) else dict(value)
    reason, until = str(entry.get("reason", "")).strip(), entry.get("until")
    if not reason:
        raise BadInput(f"expected failure of {law}: give a reason")
    if isinstance(until, str):
        try:
            until = datetime.date.fromisoformat(until)
        except ValueError:
            raise BadInput(f"expected failure of {law}: until={until!r} is no date") from None
    if until is not None and until < datetime.date.today():
        raise BadInput(
            f"expected failure of {law} ran out on {until}: {reason}; mend it, or move the date"
        )
    return ExpectedFailure(reason, until)


def apply_expectations(
    results: list[LawResult], expected: Mapping[str, ExpectedFailure]
) -> list[LawResult]:
    """Mark failures that were expected, and laws that passed everywhere although they should not.

    Where such a law was not asked, the result says that it was said to fail.

    :raises BadInput: for an expected failure of a law that bound nothing in this run.
    """
    for law, known in expected.items():
        mine = [r for r in results if r.law == law]
        if not mine:
            raise BadInput(f"expected failure of {law}: it binds none of these pools, remove it")
        failed = any(r.status == "failed" for r in mine)
        results = [_marked(r, known, failed) if r.law == law else r for r in results]
    return results


def _marked(result: LawResult, known: ExpectedFailure, failed: bool) -> LawResult:
    if result.status == "failed":
        return replace(result, status="expected", note=known.reason)
    if result.status == "not asked":
        return replace(result, note=f"{result.note}; said to fail: {known.reason}")
    if failed or result.status == "blocked":
        return result
    return replace(result, status="unexpected", note=f"said to fail: {known.reason}")
