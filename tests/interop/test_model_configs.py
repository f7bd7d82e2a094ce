"""The example configs are transformers' own, and our state shapes are those that sglang builds."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import pytest

from kvproto.configurator import ModelShape, example_config, example_names
from tests.interop import make_venv
from tests.interop.report import ENVIRONMENT


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    python = make_venv.usable_python()
    if python is None:
        pytest.skip(
            f"sglang interop did not run: {make_venv.cannot_run() or make_venv.not_built()}"
        )
    scratch = str(tmp_path_factory.mktemp("sglang"))
    done = subprocess.run(
        [python, "-m", "tests.interop.model_configs"],
        env=os.environ | ENVIRONMENT | {"SGLANG_CACHE_DIR": scratch},
        cwd=scratch,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answers: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answers


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
