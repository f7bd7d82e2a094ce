"""sglang's pools and ours after the same calls: equal, or in `differences`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.interop.differences import DIFFERENCES
from tests.interop.report import section

FEWEST = {"commits": 12, "sparse": 21, "pooled": 15, "block scales": 84}
"""Scripts of each section, so that none is lost unseen."""


@pytest.mark.parametrize("name", FEWEST)
def test_both_hold_the_same(answers: dict[str, Any], name: str) -> None:
    found = section(answers, name)
    assert len(found) >= FEWEST[name]
    differ = {record.operation for record in DIFFERENCES[name]}
    assert differ <= set(found)
    for script, told in found.items():
        if script not in differ:
            assert told["ours"] == told["theirs"], script
            assert not isinstance(told["ours"], str), f"{script}: both raised {told['ours']}"
