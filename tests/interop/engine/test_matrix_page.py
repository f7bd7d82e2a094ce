"""docs/engine.md shows the last matrix that was run, and in it every run generates the same."""

from __future__ import annotations

import json

from tests.interop.engine.configurations import MATRIX
from tests.interop.engine.matrix import PAGE, RESULTS, section

TOLD = json.loads(RESULTS.read_text())


def test_the_page_is_what_the_data_say() -> None:
    assert section(TOLD) in PAGE.read_text()


def test_every_configuration_generated_the_same() -> None:
    rows = TOLD["configurations"]
    missing = [each for each in MATRIX if each.name not in rows]
    assert rows.keys() <= {each.name for each in MATRIX}
    assert {each.backend for each in missing} <= {"triton"}
    assert bool(missing) == (f"{len(missing)} of {len(MATRIX)}\n" in section(TOLD))
    assert all(row["equal"] and row["distinct"] > 4 for row in rows.values())
