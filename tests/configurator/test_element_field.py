"""The element type of a model's own config is the default of `kvproto plan`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvproto import cli
from kvproto.configurator import ShapeError, example_config, example_names
from kvproto.configurator.element_field import stated_element_type

PLANNED = [name for name in example_names() if name != "deepseek_v4"]


def element_types(made: Any) -> set[str]:
    """Every `dtype` of the rows of a plan as JSON."""
    if isinstance(made, list):
        return {found for each in made for found in element_types(each)}
    if not isinstance(made, dict):
        return set()
    own = {made["dtype"]["name"]} if isinstance(made.get("dtype"), dict) else set[str]()
    return own | {found for each in made.values() for found in element_types(each)}


def planned(capsys: pytest.CaptureFixture[str], file: Path, *more: str) -> set[str]:
    asked = [str(file), "--page-size", "64", "--context-len", "4096", "--json", *more]
    assert cli.main(["plan", *asked]) == 0
    made: dict[str, Any] = json.loads(capsys.readouterr().out)
    return element_types(made["plan"]["pool"])


def nested(config: dict[str, Any], **stated: str) -> dict[str, Any]:
    """The same with what it states in the decoder's own config."""
    if "text_config" in config:
        return config | {"text_config": config["text_config"] | stated}
    return {"model_type": config["model_type"], "text_config": config | stated}


@pytest.mark.parametrize("name", PLANNED)
def test_every_example_is_planned_in_the_type_it_states(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    file, config = tmp_path / "config.json", example_config(name)
    assert stated_element_type(config) is None
    file.write_text(json.dumps(config))
    unstated = planned(capsys, file)
    assert "float16" not in unstated
    half = {each.replace("bfloat16", "float16") for each in unstated}
    for stated in (config | {"torch_dtype": "float16"}, nested(config, dtype="float16")):
        file.write_text(json.dumps(stated))
        assert planned(capsys, file) == half
        assert planned(capsys, file, "--model-dtype", "bfloat16") == unstated


@pytest.mark.parametrize(
    ("config", "served"),
    [
        ({"torch_dtype": "float16"}, "float16"),
        ({"torch_dtype": "torch.float16"}, "float16"),
        ({"dtype": "bfloat16", "torch_dtype": "float16"}, "bfloat16"),
        ({"torch_dtype": "bfloat16", "text_config": {"dtype": "float16"}}, "float16"),
        ({"torch_dtype": "float16", "text_config": {"dtype": None}}, "float16"),
        ({"torch_dtype": "float16", "llm_config": {"hidden_size": 1}}, "float16"),
        ({"torch_dtype": "half"}, "float16"),
        ({"model_type": "llama", "torch_dtype": "float32"}, "float16"),
        ({"model_type": "gemma2", "torch_dtype": "float"}, "bfloat16"),
        ({"text_config": {"model_type": "gemma3_text", "dtype": "float32"}}, "bfloat16"),
        ({"torch_dtype": None}, None),
        ({}, None),
    ],
)
def test_the_decoders_own_type_goes_first(config: dict[str, Any], served: str | None) -> None:
    assert stated_element_type(config) == served


@pytest.mark.parametrize("value", ["auto", "float8_e4m3fn", 16, ["float16"]])
def test_what_is_no_type_is_said(value: object) -> None:
    with pytest.raises(ShapeError, match=r"torch_dtype=.*must be one of .*--model-dtype goes"):
        stated_element_type({"torch_dtype": value})


def test_a_flag_goes_before_what_cannot_be_read(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(example_config("llama") | {"torch_dtype": "auto"}))
    assert cli.main(["plan", str(file)]) == 2
    assert "kvproto: torch_dtype='auto': must be one of" in capsys.readouterr().err
    assert planned(capsys, file, "--model-dtype", "float16") == {"float16"}


def test_it_is_compared_with_others(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(example_config("llama") | {"torch_dtype": "float16"}))
    assert cli.main(["plan", str(file), "--json", "--compare", "model-dtype=float32"]) == 0
    made = json.loads(capsys.readouterr().out)
    by_name = {name: element_types(each["plan"]["pool"]) for name, each in made.items()}
    assert by_name == {"as given": {"float16"}, "model-dtype=float32": {"float32"}}
