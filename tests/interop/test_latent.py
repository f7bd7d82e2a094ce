"""sglang's latent pools and ours after the same calls: equal, or in `differences`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.interop.differences import DIFFERENCES
from tests.interop.report import section

SAME = [
    *(f"mla: rows written in torch.{t}" for t in ("bfloat16", "float16", "float32")),
    *(f"mla: rows written in torch.float8_{t}" for t in ("e4m3fn", "e5m2")),
    "mla: a layer named beside the layer",
    "mla: read doors in torch.bfloat16",
    "mla: read doors in torch.float8_e4m3fn",
    "mla: parts read from torch.bfloat16",
    "mla: parts read from torch.float8_e4m3fn",
    "mla: rows moved in torch.bfloat16",
    "mla: rows moved in torch.float8_e5m2",
    "mla: rows copied to the host in torch.bfloat16",
    "mla: rows copied to the host in torch.float8_e4m3fn",
    *(
        f"mla: {what}, pages of {page} in torch.{dtype}"
        for what in ("descriptors", "sizes")
        for page in (1, 4, 64)
        for dtype in ("bfloat16", "float8_e4m3fn")
    ),
    "dsa: index keys stored",
    "dsa: index keys gathered",
    *(
        f"dsa: {what}, {rows}"
        for what in ("rows and index keys moved", "descriptors and sizes", "rows written")
        for rows in ("bf16", "packed")
    ),
    "dsa: descriptors and sizes, shared choice",
]
"""Buffers, descriptors, orders and sizes that must be equal, bit for bit."""


@pytest.mark.parametrize("script", SAME)
def test_both_hold_the_same(answers: dict[str, Any], script: str) -> None:
    found = section(answers, "latent")[script]
    assert found["ours"] == found["theirs"]
    assert not isinstance(found["ours"], str), f"both raised {found['ours']}"


def test_every_script_is_expected(answers: dict[str, Any]) -> None:
    told = {name for name, found in section(answers, "latent").items() if isinstance(found, dict)}
    assert told == {*SAME, *(record.operation for record in DIFFERENCES["latent"])}


def test_the_interpreter_still_needs_its_rounding_mended(answers: dict[str, Any]) -> None:
    """When this fails, triton is mended and `rounding.py` may go."""
    assert section(answers, "latent")["casts that the interpreter gets wrong"] > 0
