"""sglang's NPU pools and ours after the same calls on an emulated `npu`, or in `differences`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.devices.build_extension import library
from tests.interop.differences import DIFFERENCES
from tests.interop.report import answers_of

FEWEST = 128
"""Scripts, so that none is lost unseen."""

DIFFER = {record.operation: record for record in DIFFERENCES["npu"]}


@pytest.fixture(scope="module")
def found(interop_python: str) -> dict[str, Any]:
    library()  # built here, not within the time of the process
    emulated = ("tests.devices.emulate", "npu", "-m", "tests.interop.npu_pools")
    return answers_of(interop_python, *emulated)


def test_both_hold_the_same(found: dict[str, Any]) -> None:
    assert len(found) >= FEWEST
    for script in found.keys() - DIFFER.keys():
        told = found[script]
        assert told["ours"] == told["theirs"], script
        assert not isinstance(told["ours"], str), f"{script}: both raised {told['ours']}"


@pytest.mark.parametrize("script", DIFFER)
def test_the_clause_is_kept_where_sglang_breaks_it(found: dict[str, Any], script: str) -> None:
    record = DIFFER[script]

    assert record.shown is not None
    assert found[script]["ours"] == record.shown.kvproto, record.clause
    assert found[script]["theirs"] == record.shown.sglang, f"changed; {record.clause} kept now?"
