"""The longest files come first, and a run says whether sglang was there."""

from __future__ import annotations

from typing import Any

import pytest

from tests.interop import make_venv

LONGEST = (
    "tests/conformance/test_mutants.py",
    "tests/test_readme.py",
    "tests/kernels/triton/test_interpreted.py",
    "tests/interop/test_laws.py",
    "tests/kernels/triton/test_compiled.py",
    "tests/devices/test_on_devices.py",
    "tests/interop/engine/test_in_process.py",
    "tests/interop/test_differences.py",  # asks sglang's pools what many more files want to know
)
"""Files that take over half a minute: begun last, they would have one process wait for another."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first, the others as they were; xdist keeps to it (`--no-loadscope-reorder`)."""
    rank = {file: place for place, file in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.nodeid.partition("::")[0], len(rank)))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """A line that says whether sglang was there: passed tests alone do not show it."""
    reports = {outcome: _interop(terminalreporter, outcome) for outcome in ("passed", "skipped")}
    if not any(reports.values()):
        return
    python = make_venv.usable_python()
    beside = "beside the real sglang" if python else "without sglang"
    terminalreporter.write_line(f"tests/interop: {len(reports['passed'])} passed {beside}")
    for note in sorted({v for r in reports["passed"] for k, v in r.user_properties if k == "note"}):
        terminalreporter.write_line(f"tests/interop: {note}")


def _interop(terminalreporter: Any, outcome: str) -> list[Any]:
    return [r for r in terminalreporter.stats.get(outcome, ()) if "tests/interop/" in r.nodeid]
