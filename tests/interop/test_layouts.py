"""sglang's pools of other layouts and ours after the same calls: equal, or in `differences`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.interop.differences import DIFFERENCES
from tests.interop.report import section

PLAIN = [f"torch.{t}" for t in ("bfloat16", "float16", "float32")]
DTYPES = [*PLAIN, "torch.float8_e4m3fn"]
TWO = ["torch.bfloat16", "torch.float8_e4m3fn"]

SAME = [
    *(f"hnd: rows written in {t}, pages of {page}" for t in DTYPES for page in (1, 16)),
    *(f"hnd: rows moved in {t}" for t in DTYPES),
    *(f"vectorized_5d: rows written in {t}" for t in DTYPES),
    *(f"page_envelope: rows written in {t}" for t in DTYPES),
    *(f"{layout}: read doors in {t}" for layout in ("hnd", "vectorized_5d") for t in TWO),
    *(f"page_envelope: read doors in {t}" for t in TWO),
    *(f"{layout}: sizes in {t}" for layout in ("hnd", "vectorized_5d") for t in TWO),
    "vectorized_5d: descriptors",
    *(f"paged_nhd: rows by page in {t}" for t in PLAIN[:2]),
    *(f"paged_nhd: layers in one run in {t}" for t in PLAIN[:2]),
    *(f"page_envelope: envelopes, pages of {page}" for page in (1, 4, 64)),
    *(f"page_envelope: pages moved, of {page}" for page in (1, 4, 64)),
    "page_envelope: padded entries",
    "page_envelope: rows copied to the host",
    "page_envelope: pages of one slot moved",
]
"""Buffers, doors, descriptors and sizes that must be equal, bit for bit."""


@pytest.mark.parametrize("script", SAME)
def test_both_hold_the_same(answers: dict[str, Any], script: str) -> None:
    found = section(answers, "layouts")[script]
    assert found["ours"] == found["theirs"]
    assert not isinstance(found["ours"], str), f"both raised {found['ours']}"


def test_every_script_is_expected(answers: dict[str, Any]) -> None:
    told = set(section(answers, "layouts"))
    assert told == {*SAME, *(record.operation for record in DIFFERENCES["layouts"])}
