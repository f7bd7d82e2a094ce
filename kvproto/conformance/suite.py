"""The kit as a test class: one test per law, in a vendor's own test suite."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, final

import pytest

from .check import LAWS_VERSION, check_pool
from .law import LAWS
from .report import Report
from .row_access import RowAccess

__all__ = ["PoolConformance"]

_OURS = ("test_law", "test_claims", "pytest_generate_tests")


class PoolConformance:
    """Subclass it in a test module and define `make_pool`; the rest is optional.

    class TestAcme(PoolConformance):
        def make_pool(self, request): ...

    `make_pool` takes one request and returns a fresh pool on the CPU, or `Declined(reason)`. The
    other attributes mean what they mean to `check_pool`.

    :raises TypeError: for a subclass that replaces a test; say what is known to fail instead.
    """

    claims: ClassVar[Iterable[str] | None] = None
    cannot: ClassVar[Mapping[str, str] | None] = None
    expected: ClassVar[Mapping[str, Any] | None] = None
    laws_version: ClassVar[str] = LAWS_VERSION
    row_access: ClassVar[RowAccess | None] = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in _OURS:
            if name in cls.__dict__:
                raise TypeError(
                    f"{cls.__name__}.{name}: the kit's tests are not overridden; put the law's id "
                    "and the reason into `expected`"
                )

    def make_pool(self, request: Any) -> Any:
        """The vendor's hook."""
        raise NotImplementedError(f"{type(self).__name__}.make_pool(request) is not defined")

    @final
    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """pytest's hook: one `test_law` per law."""
        if "law" in metafunc.fixturenames:
            metafunc.parametrize("law", [k for k in LAWS if k != "declaration.claims"])

    @final
    def test_law(self, law: str) -> None:
        """Every pool the law binds keeps it; skipped, visibly, where it binds none."""
        known = {k: v for k, v in (self.expected or {}).items() if k == law}
        report = check_pool(
            self.make_pool,
            laws=[law],
            expected=known,
            laws_version=self.laws_version,
            row_access=self.row_access,
        )
        if not report.results:
            pytest.skip(f"binds none of these pools: {LAWS[law].claim}")
        _judge(report)

    @final
    def test_claims(self) -> None:
        """What is claimed is detected, every expected failure names a law, and something ran."""
        report = check_pool(
            self.make_pool,
            laws=["declaration"],
            claims=self.claims,
            cannot=self.cannot,
            expected={k: v for k, v in (self.expected or {}).items() if k not in LAWS},
        )
        assert report.results
        _judge(report)


def _judge(report: Report) -> None:
    if report.failures:
        lines = [f"{r.subject}, {r.spec}: {r.detail}" for r in report.failures]
        lines += [f"check: {report.failures[0].rule.check}"]
        pytest.fail("\n".join(lines), pytrace=False)
    if report.results and all(r.status == "not asked" for r in report.results):
        pytest.skip(f"not asked: {report.results[0].note}")
    if any(r.status == "expected" for r in report.results):
        known = next(r for r in report.results if r.status == "expected")
        pytest.xfail(known.note)
