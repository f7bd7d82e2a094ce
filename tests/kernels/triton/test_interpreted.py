"""Kernels against their torch twins, interpreted, in a process of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent / "interpreted"
SHARED = (
    "test_alloc.py",
    "test_copy_pages.py",
    "test_index_pages.py",
    "test_latent_rows.py",
    "test_refused_arguments.py",
    "test_rows.py",
    "test_tiled_rows.py",
)
"""Tests of `tests/kernels/` that are run on kernels too."""
ROOT = Path(__file__).parents[3]


def test_interpreted_kernels_do_what_their_twins_do() -> None:
    """Two processes side by side: it is what most of the time of these tests goes to."""
    shared = [FOLDER.parents[1] / name for name in SHARED]
    for output, status in interpreted([FOLDER], shared):
        assert status == 0, output[-6000:]
        passed = re.search(r"(\d+) passed", output)
        assert passed
        assert int(passed[1]) > 20
        assert "skipped" not in output


def interpreted(*groups: list[Path]) -> list[tuple[str, int]]:
    """What pytest says of each group of tests, and its exit status."""
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *map(str, group)],
            cwd=ROOT,
            env=os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for group in groups
    ]
    return [(each.communicate()[0], each.returncode) for each in running]
