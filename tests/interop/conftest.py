"""One run of the probe and one of the laws serve all tests; where they cannot run, they say so."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.interop import make_venv, report
from tests.interop.verdicts import Verdicts
from tests.shared_answers import once


@pytest.fixture(scope="session")
def interop_python() -> str:
    """The interpreter of `.interop-venv`; without it the test is skipped, and says why."""
    python = make_venv.usable_python()
    if python is None:
        why = make_venv.cannot_run() or make_venv.not_built()
        pytest.skip(f"sglang interop did not run: {why}")
    return python


@pytest.fixture(scope="session")
def answers(interop_python: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What sglang's real pools answer, asked in one process of `.interop-venv`."""
    return once("probe", partial(report.run_probe, interop_python), tmp_path_factory)


@pytest.fixture(scope="session")
def sample(interop_python: str) -> Verdicts:
    """What the kit finds in them, in the geometries of the sample."""
    return report.run_laws(interop_python, "--sample")
