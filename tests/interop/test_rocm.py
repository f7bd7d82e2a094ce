"""sglang's ROCm paths and the ROCm adapter: the same bytes after the same calls."""

from __future__ import annotations

from typing import Any

import pytest

from tests.interop.report import section

SAME = [
    *(
        f"{device}: {what}"
        for device in ("gfx942", "gfx950")
        for what in (
            "index keys stored in tiles",
            "index keys moved in tiles",
            "bare latent rows written",
        )
    ),
    "scales and bits of a checkpoint in e4m3fn",
]


@pytest.mark.parametrize("script", SAME)
def test_both_hold_the_same(answers: dict[str, Any], script: str) -> None:
    found = section(answers, "rocm")[script]
    assert found["ours"] == found["theirs"]
    assert not isinstance(found["ours"], str), f"both raised {found['ours']}"


def test_every_script_is_expected(answers: dict[str, Any]) -> None:
    assert set(section(answers, "rocm")) == set(SAME)
