"""One run of the probe serves all interop tests; where it cannot run, they say so."""

from __future__ import annotations

from typing import Any

import pytest

from tests.interop import make_venv, report


@pytest.fixture(scope="session")
def answers() -> dict[str, Any]:
    """What sglang's real pools answer, asked in one process of `.interop-venv`."""
    python = make_venv.usable_python()
    if python is None:
        why = make_venv.cannot_run() or make_venv.not_built()
        pytest.skip(f"sglang interop did not run: {why}")
    return report.run_probe(python)
