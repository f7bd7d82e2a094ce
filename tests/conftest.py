"""A run says whether sglang was there, also where several processes share the tests."""

from __future__ import annotations

from typing import Any

from tests.interop import make_venv


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """A line that says whether sglang was there: passed tests alone do not show it."""
    reports = {outcome: _interop(terminalreporter, outcome) for outcome in ("passed", "skipped")}
    if not any(reports.values()):
        return
    python = make_venv.usable_python()
    beside = "beside the real sglang" if python else "without sglang"
    terminalreporter.write_line(f"tests/interop: {len(reports['passed'])} passed {beside}")


def _interop(terminalreporter: Any, outcome: str) -> list[Any]:
    return [r for r in terminalreporter.stats.get(outcome, ()) if "tests/interop/" in r.nodeid]
