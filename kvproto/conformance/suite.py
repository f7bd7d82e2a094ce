"""The kit as test classes: one test per law, in a vendor's own test suite."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, final

import pytest

from kvproto.protocols import Platform

from .check import Answers, ask, check_pool, held, something
from .check_platform import check_platform, split_specs
from .found import LAWS_VERSION, Terms, report_of
from .law import LAWS, Law
from .over_leaves import binds_over_leaves
from .platform_parts import is_of_platforms, platform_laws
from .report import Report
from .row_access import RowAccess
from .runner import How

__all__ = ["PlatformConformance", "PoolConformance"]

_OURS = ("test_law", "test_claims", "pytest_generate_tests")
_AS_USUAL = How(seed=0, isolate="hazardous")


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
    _asked: ClassVar[dict[bool, Answers]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._asked = {}
        _refuse_overrides(cls)

    def make_pool(self, request: Any) -> Any:
        """The vendor's hook."""
        raise NotImplementedError(f"{type(self).__name__}.make_pool(request) is not defined")

    @final
    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """pytest's hook: one `test_law` per law about pools."""
        if "law" in metafunc.fixturenames:
            pools = [law.id for law in LAWS.values() if not is_of_platforms(law)]
            metafunc.parametrize("law", [law for law in pools if law != "declaration.claims"])

    @final
    def test_law(self, law: str) -> None:
        """Every pool the law binds keeps it; skipped, visibly, where it binds none."""
        rule = LAWS[law]
        known = {k: v for k, v in (self.expected or {}).items() if k == law}
        terms = Terms.of(None, None, known, self.laws_version)
        found = something(held(self._answers(rule), [rule], _AS_USUAL, self.row_access))
        report = report_of(found, [rule], terms, target=type(self).__qualname__)
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

    def _answers(self, law: Law) -> Answers:
        """What is built to see which laws bind it, once for all tests; each law builds anew."""
        composites, asked = binds_over_leaves(law), type(self)._asked
        if composites not in asked:
            asked[composites] = ask(self.make_pool, composites=composites)
        return asked[composites]


class PlatformConformance:
    """The same for a platform: its parts and whole models, built and judged once for all tests.

    class TestAcme(PlatformConformance):
        def make_platform(self): ...

    `make_platform` gives a platform whose leaves and allocators can be built on the CPU. `specs`
    names geometries and deployments (`kvproto laws` lists them), None is all; there is a test for
    each law about those that are named. The other attributes mean what they mean to
    `check_platform`; claims are about everything that is built.

    :raises TypeError: for a subclass that replaces a test; say what is known to fail instead.
    """

    claims: ClassVar[Iterable[str] | None] = None
    cannot: ClassVar[Mapping[str, str] | None] = None
    expected: ClassVar[Mapping[str, Any] | None] = None
    laws_version: ClassVar[str] = LAWS_VERSION
    row_access: ClassVar[RowAccess | None] = None
    specs: ClassVar[Sequence[str] | None] = None
    _found: ClassVar[Report | None] = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._found = None
        _refuse_overrides(cls)

    def make_platform(self) -> Platform:
        """The vendor's hook."""
        raise NotImplementedError(f"{type(self).__name__}.make_platform() is not defined")

    @final
    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """pytest's hook: one `test_law` per law about what a platform builds."""
        if "law" in metafunc.fixturenames:
            parts, models = split_specs(self.specs)
            metafunc.parametrize("law", [law.id for law in platform_laws([*parts, *models])])

    @final
    def test_law(self, law: str) -> None:
        """Everything that is built keeps it; skipped, visibly, where it binds nothing."""
        self._judge(law)

    @final
    def test_claims(self) -> None:
        """What is claimed is detected on some pool that is built, and what cannot be on none."""
        self._judge("declaration.claims")

    def _judge(self, law: str) -> None:
        results = tuple(r for r in self._report().results if r.law == law)
        if not results:
            pytest.skip(f"binds nothing of this platform: {LAWS[law].claim}")
        _judge(replace(self._report(), results=results))

    def _report(self) -> Report:
        cls = type(self)
        if cls._found is None:
            cls._found = check_platform(
                self.make_platform(),
                specs=self.specs,
                claims=self.claims,
                cannot=self.cannot,
                expected=self.expected,
                laws_version=self.laws_version,
                row_access=self.row_access,
            )
        return cls._found


def _refuse_overrides(cls: type) -> None:
    for name in _OURS:
        if name in cls.__dict__:
            raise TypeError(
                f"{cls.__name__}.{name}: the kit's tests are not overridden; put the law's id "
                "and the reason into `expected`"
            )


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
