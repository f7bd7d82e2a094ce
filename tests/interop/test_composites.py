"""sglang's composites and ours after the same calls: equal, or in `differences`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.interop.differences import DIFFERENCES
from tests.interop.report import section

HEADS = ("swa, page 1", "swa, page 4", "swa, values narrower")
SWA = (*HEADS, "swa, fp8")
LATENT_SWA = "swa over dsa and mla"
HYBRID = ("hybrid over mha", "hybrid over mla", "hybrid over dsa")
THEIR_PARTS = ("swa over sglang's leaves", "hybrid over sglang's parts")
STATE = ("state", "state, speculative")

EQUAL_ON: dict[str, tuple[str, ...]] = {
    "rows written": (*SWA, LATENT_SWA, *HYBRID, *THEIR_PARTS),
    "latent parts written": (LATENT_SWA, *HYBRID[1:]),
    "index keys written": (LATENT_SWA, "hybrid over dsa"),
    "locations translated": SWA,
    "tokens moved": (*SWA, *HYBRID, *THEIR_PARTS),
    "tokens copied to the host": (*SWA, *HYBRID[:2], "hybrid over sglang's parts"),
    "descriptors": (*SWA, *HYBRID[:2], *THEIR_PARTS),
    "sizes and names": (*SWA, LATENT_SWA, *HYBRID, *THEIR_PARTS),
    "state regions": HYBRID,
    "layer ids of regions": HYBRID[:2],
    "width of a value": (*HEADS, "hybrid over mha"),
    "state cleared and copied": STATE,
    "state copied to the host": STATE,
    "state descriptors": STATE,
    "state tensors": STATE,
}
"""Buffers, descriptors, orders, names and sizes that must be equal, bit for bit."""

SAME = [f"{script}; {family}" for script, families in EQUAL_ON.items() for family in families]


@pytest.mark.parametrize("script", SAME)
def test_is_the_same_bit_for_bit(answers: dict[str, Any], script: str) -> None:
    seen = section(answers, "composites")[script]
    assert not isinstance(seen["ours"], str), f"raised {seen['ours']}"
    assert seen["ours"] == seen["theirs"]


def test_every_script_is_expected(answers: dict[str, Any]) -> None:
    different = {record.operation for record in DIFFERENCES["composites"]}
    assert set(section(answers, "composites")) == {*SAME, *different}
