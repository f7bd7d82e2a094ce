"""The tests on emulated devices: one process for each vendor, one test here for each file."""

from __future__ import annotations

from functools import cache
from typing import get_args

import pytest

from tests.devices.emulate import Vendor
from tests.devices.processes import Verdict, files_on, run_tests

FILES = [(vendor, file) for vendor in get_args(Vendor) for file in files_on(vendor)]


@cache
def _verdicts(vendor: Vendor) -> dict[str, Verdict]:
    return run_tests(vendor, files_on(vendor))


@pytest.mark.parametrize(("vendor", "file"), FILES)
def test_file_on_the_device(vendor: Vendor, file: str) -> None:
    verdict = _verdicts(vendor)[file]

    assert not verdict.problems, "\n".join(verdict.problems)
