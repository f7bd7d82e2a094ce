"""Every class of the real sglang has a row on the page of families, and every row a class."""

from __future__ import annotations

from typing import Any

from tests.families import rows


def test_the_page_names_every_class(answers: dict[str, Any]) -> None:
    assert sorted(row.name for row in rows()) == answers["census"]
