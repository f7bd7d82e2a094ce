"""No file grows past what can be read at a sitting."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("kvproto", "tests", "benchmarks", "typecheck", "examples")
MOST = 400
LONGER: dict[str, str] = {}
"""Path -> why it is longer."""


def lengths() -> dict[str, int]:
    """Lines of every Python file of the repository."""
    files = [file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py")]
    return {str(f.relative_to(ROOT)): len(f.read_text().splitlines()) for f in files}


def test_no_file_is_over_400_lines() -> None:
    over = {path for path, lines in lengths().items() if lines > MOST}
    assert over == set(LONGER), "split it by concept"
