"""The kit in pytest; loaded in every environment that has kvproto installed.

Nothing heavy is imported before a test asks for it, and no fixture, option or marker of ours
gets into a vendor's tests unless it is named.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .factory import Factory
    from .report import Report

__all__ = ["check_kv_pool"]


@pytest.fixture
def check_kv_pool() -> Callable[[Factory], Report]:
    """A function that holds a factory's pools to every law and fails the test where one breaks."""
    from .check import check_pool

    def check(factory: Factory) -> Report:
        report = check_pool(factory)
        if not report.ok:
            lines = [f"{r.law} on {r.spec}: {r.detail}" for r in report.failures]
            pytest.fail("\n".join(lines) or "no law ran", pytrace=False)
        return report

    return check
