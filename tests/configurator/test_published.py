"""Published checkpoints' configs: which layers keep what, against counts from their papers."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kvproto.configurator import HeadGeometry, ModelShape

PUBLISHED: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parent / "published.json").read_text()
)
"""By checkpoint: `source`, the fields that say what layers keep, and what they keep."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_config(name: str) -> None:
    case = PUBLISHED[name]
    shape = ModelShape.from_hf_config(case["config"])
    assert Counter(shape.layers) == case["layers"]
    assert [i for i, kind in enumerate(shape.layers) if kind == "full"][:3] == case["first_full"]
    assert shape.window == case["window"]
    heads = shape.attention
    assert isinstance(heads, HeadGeometry)
    assert [heads.head_num, heads.head_dim] == case["heads"]
