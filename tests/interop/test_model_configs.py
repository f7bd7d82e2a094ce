"""The example configs are transformers' own, and our state shapes are those that sglang builds."""

from __future__ import annotations

from typing import Any

import pytest

from kvproto.configurator import ModelShape, example_config, example_names
from kvproto.configurator.class_defaults import CLASS_DEFAULTS
from kvproto.configurator.element_field import stated_element_type
from tests.interop import report
from tests.interop.window_cases import CONTEXT_CASES, ELEMENT_CASES, WINDOW_CASES

HEADS = {"num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 64}
WORDS = {
    "sliding": "sliding_attention",
    "chunked": "chunked_attention",
    "full": "full_attention",
    "linear": "linear_attention",
    "indexed": "indexed_attention",
}


@pytest.fixture(scope="module")
def theirs(interop_python: str) -> dict[str, Any]:
    return report.answers_of(interop_python, "tests.interop.model_configs")


@pytest.mark.parametrize("name", example_names())
def test_a_config_has_the_defaults_of_its_class(theirs: dict[str, Any], name: str) -> None:
    assert example_config(name) == theirs["defaults"][name]


def test_state_shapes(theirs: dict[str, Any]) -> None:
    assert len(theirs["states"]) > 40
    for key, (conv, temporal) in theirs["states"].items():
        name, ranks = key.split("/")
        state = ModelShape.from_hf_config(example_config(name)).state
        assert state is not None
        assert list(state.temporal_shape(int(ranks))) == temporal, key
        ours = state.conv_shape(int(ranks))
        assert ([] if ours is None else [list(ours)]) == [c for c in conv if 0 not in c], key


@pytest.mark.parametrize("name", WINDOW_CASES)
def test_windows_without_a_list_are_where_the_class_derives_them(
    theirs: dict[str, Any], name: str
) -> None:
    layers = ModelShape.from_hf_config(WINDOW_CASES[name] | HEADS).layers
    assert [WORDS[kind] for kind in layers] == theirs["windows"][name]


def test_what_configs_leave_to_their_class(theirs: dict[str, Any]) -> None:
    assert theirs["class_defaults"] == CLASS_DEFAULTS


@pytest.mark.parametrize("name", CONTEXT_CASES)
def test_contexts(theirs: dict[str, Any], name: str) -> None:
    config = CONTEXT_CASES[name] | HEADS | {"num_hidden_layers": 35}
    assert ModelShape.from_hf_config(config).context_len == theirs["contexts"][name]


@pytest.mark.parametrize("name", ELEMENT_CASES)
def test_element_types(theirs: dict[str, Any], name: str) -> None:
    stated = stated_element_type(ELEMENT_CASES[name])
    assert f"torch.{stated}" == theirs["element_types"][name]
