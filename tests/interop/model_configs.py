# pyright: basic, reportMissingImports=false
"""What transformers' configuration classes and sglang's state shapes say, as one JSON object.

Run in `.interop-venv` by `test_model_configs.py`.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from sglang.srt.configs.mamba_utils import KimiLinearStateShape, Mamba2StateShape
from sglang.srt.configs.model_config import _get_and_verify_dtype
from sglang.srt.utils.hf_transformers import get_context_length, get_hf_text_config
from transformers import AutoConfig

from kvproto.configurator import ModelShape, StateGeometry, example_config, example_names
from kvproto.configurator.class_defaults import CLASS_DEFAULTS
from tests.interop.window_cases import CONTEXT_CASES, ELEMENT_CASES, WINDOW_CASES


def main() -> None:
    answers = {
        "defaults": {name: _defaults(example_config(name)) for name in example_names()},
        "states": {
            f"{name}/{ranks}": _state(state, ranks)
            for name in example_names()
            for ranks in (1, 2, 4, 8, 16)
            if (state := ModelShape.from_hf_config(example_config(name)).state) is not None
            and state.heads % ranks == 0
        },
        "class_defaults": {
            family: {name: getattr(AutoConfig.for_model(family), name) for name in ours}
            for family, ours in CLASS_DEFAULTS.items()
        },
        "contexts": {
            name: get_context_length(AutoConfig.for_model(**config))
            for name, config in CONTEXT_CASES.items()
        },
        "element_types": {
            name: str(
                _get_and_verify_dtype(get_hf_text_config(AutoConfig.for_model(**config)), "auto")
            )
            for name, config in ELEMENT_CASES.items()
        },
        "windows": {
            name: AutoConfig.for_model(**config).layer_types
            for name, config in WINDOW_CASES.items()
        },
    }
    json.dump(answers, sys.stdout)


def _defaults(ours: dict[str, Any]) -> dict[str, Any]:
    """The class's defaults, of the fields that ours has."""
    return _same_keys(ours, AutoConfig.for_model(ours["model_type"]).to_dict())


def _same_keys(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    return {
        key: _same_keys(value, theirs[key]) if isinstance(value, dict) else theirs.get(key)
        for key, value in ours.items()
    }


def _state(state: StateGeometry, ranks: int) -> list[Any]:
    if state.mixer == "kda":
        shape = KimiLinearStateShape.create(
            tp_world_size=ranks,
            num_heads=state.heads,
            head_dim=state.head_dim,
            conv_kernel_size=state.conv_window + 1,
        )
    elif state.mixer == "mamba1":
        shape = Mamba2StateShape.create_full_rank(
            tp_world_size=ranks,
            intermediate_size=state.heads,
            state_size=state.state_dim,
            conv_kernel=state.conv_window + 1,
        )
    else:
        shape = Mamba2StateShape.create(
            tp_world_size=ranks,
            intermediate_size=state.conv_blocks[-1 if state.mixer == "gated_delta" else 0]
            if state.conv_blocks
            else 0,
            n_groups=state.groups if state.conv_blocks else 0,
            num_heads=state.heads,
            head_dim=state.head_dim,
            state_size=state.state_dim,
            conv_kernel=state.conv_window + 1,
        )
    return [[list(conv) for conv in shape.conv], list(shape.temporal)]


if __name__ == "__main__":
    main()
