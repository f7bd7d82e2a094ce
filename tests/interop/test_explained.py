"""Each law that a real pool breaks is explained by a sentence, and no other is."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


def broken() -> set[tuple[str, str]]:
    laws = json.loads((RESULTS / "laws.json").read_text())
    return {
        (pool, law)
        for pool, found in laws.items()
        if isinstance(found, dict)
        for law, line in found.items()
        if " failed" in line.split(";", 1)[0]
    }


def test_every_red_row_is_explained() -> None:
    explained = tomllib.loads((RESULTS / "explained.toml").read_text())
    everywhere = explained.pop("laws")
    unexplained = {
        (pool, law)
        for pool, law in broken()
        if law not in everywhere and law not in explained.get(pool, {})
    }
    assert unexplained == set()


def test_nothing_else_is_explained() -> None:
    explained = tomllib.loads((RESULTS / "explained.toml").read_text())
    everywhere = set(explained.pop("laws"))
    assert everywhere <= {law for _, law in broken()}
    assert {(pool, law) for pool, laws in explained.items() for law in laws} <= broken()
