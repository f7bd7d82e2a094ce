"""Tests in processes of their own, where a vendor's device is emulated.

A file named `on_npu_<what>.py` or `on_musa_<what>.py`, anywhere under `tests/`, holds ordinary
tests that run where `npu:0` or `musa:0` is a device (`tests/devices/emulate.py`). pytest does not
find them by itself: `tests/devices/test_on_devices.py` runs those of a vendor in one process, and
has a test for each file. One file by hand:

    python -m tests.devices.emulate npu -m pytest -q tests/devices/on_npu_tensors.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tests.devices.build_extension import library

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.devices.emulate import Vendor

__all__ = ["Verdict", "files_on", "run_module", "run_tests"]

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 500
PYTEST = (
    *("-q", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), "-p", "no:cacheprovider"),
    *("-o", "junit_family=xunit1", "--continue-on-collection-errors"),
)


@dataclass(frozen=True)
class Verdict:
    """What became of the tests of one file."""

    passed: int
    problems: tuple[str, ...]
    """Those that failed, did not run or were skipped: name and reason."""


def files_on(vendor: Vendor) -> list[str]:
    """The files of tests on this vendor's device, relative to the repository."""
    return sorted(str(file.relative_to(ROOT)) for file in ROOT.glob(f"tests/**/on_{vendor}_*.py"))


def run_tests(vendor: Vendor, files: Sequence[str]) -> dict[str, Verdict]:
    """Run the tests of these files in one process on the vendor's emulated device.

    :raises RuntimeError: nothing could be run; the message has the end of what pytest said.
    :raises NoCompiler: the emulated device cannot be built here.
    """
    with TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.xml"
        output = run_module(vendor, "pytest", *PYTEST, f"--junitxml={report}", *files, status=None)
        if not report.exists():
            raise RuntimeError(f"pytest on {vendor} ended without a report: {output[-3000:]}")
        cases = list(ET.parse(report).iter("testcase"))
    return {file: _verdict([case for case in cases if _is_of(case, file)]) for file in files}


def run_module(
    vendor: Vendor,
    module: str,
    *arguments: str,
    status: int | None = 0,
    python: str = sys.executable,
    environment: dict[str, str] | None = None,
) -> str:
    """What `python -m module arguments...` prints in a process with the vendor's emulated device.

    `status` is the exit status it must have, None for any.

    :raises RuntimeError: it ended with another; the message has the end of what it printed.
    :raises NoCompiler: the emulated device cannot be built here.
    """
    library()  # here, so that the time limit is the tests' own
    command = [python, "-m", "tests.devices.emulate", vendor, "-m", module, *arguments]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | (environment or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if status is not None and done.returncode != status:
        end = done.stdout[-3000:]
        raise RuntimeError(f"{module} on {vendor} ended with status {done.returncode}: {end}")
    return done.stdout


def _verdict(cases: Sequence[ET.Element]) -> Verdict:
    problems = tuple(_problem(case) for case in cases if len(_outcomes(case)))
    if not cases:
        problems = ("no test ran",)
    return Verdict(max(0, len(cases) - len(problems)), problems)


def _is_of(case: ET.Element, file: str) -> bool:
    """Its own; and a file that could not be imported, which pytest does not name, is everyone's."""
    of = case.get("file")
    return not of or (ROOT / of).resolve() == (ROOT / file).resolve()


def _problem(case: ET.Element) -> str:
    return "\n".join([f"{case.get('name')}:", *(each.text or "" for each in _outcomes(case))])


def _outcomes(case: ET.Element) -> list[ET.Element]:
    return [each for each in case if each.tag in ("failure", "error", "skipped")]
