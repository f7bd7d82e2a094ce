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
    "test_rows.py",
    "test_tiled_rows.py",
)
"""Tests of `tests/kernels/` that are run on kernels too."""
ROOT = Path(__file__).parents[3]


def test_interpreted_kernels_do_what_their_twins_do() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    tests = [FOLDER, *(FOLDER.parents[1] / name for name in SHARED)]
    done = subprocess.run(
        [*command, *map(str, tests)],
        cwd=ROOT,
        env=os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed
    assert int(passed[1]) > 20
    assert "skipped" not in done.stdout
