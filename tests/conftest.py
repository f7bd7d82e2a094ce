"""Which tests run in one process where several processes share the tests."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in the same hook
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests of a file share what it has worked out, and all of `interop/` the same probes."""
    if not config.pluginmanager.has_plugin("xdist"):
        return
    for item in items:
        path = item.path.relative_to(HERE)
        group = "interop" if path.parts[0] == "interop" else str(path)
        item.add_marker(pytest.mark.xdist_group(group))
