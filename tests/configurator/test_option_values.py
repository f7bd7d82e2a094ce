"""Options of another type or range are refused by name, not where they are first used."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from kvproto.configurator import (
    MemoryBudget,
    ParallelLayout,
    PlanError,
    ServingOptions,
    SpeculativeOptions,
    StateOptions,
    plan_from_json,
    plan_to_json,
)
from tests.configurator.test_plan import planned


def speculative(**changed: Any) -> SpeculativeOptions:
    named: dict[str, Any] = {"kind": "eagle", "draft_tokens": 2} | changed
    return SpeculativeOptions(**named)


CASES: list[tuple[Callable[..., object], str, Any, str]] = [
    (ServingOptions, "page_size", 0, "give at least 1, or leave it out for the platform's own"),
    (ServingOptions, "page_size", "64", "it is a whole number"),
    (ServingOptions, "page_size", True, "it is a whole number"),
    (ServingOptions, "page_size", 1.5, "it is a whole number"),
    (ServingOptions, "max_total_tokens", 0, "it is a count; give at least 1, or leave it out"),
    (ServingOptions, "prefix_cache", "no", "it is true or false"),
    (ServingOptions, "window_pools", 1, "it is true or false"),
    (ServingOptions, "model_dtype", "float8_e4m3fn", "give one of 'float32', 'bfloat16', 'float1"),
    (ServingOptions, "swa_full_tokens_ratio", "1", "it is a finite number"),
    (ServingOptions, "chunked_prefill_size", -1, "or chunked_prefill_size=None for whole prompts"),
    (ServingOptions, "pre_alloc_size", -1, "rows are counted; give 0 or more"),
    (ServingOptions, "host_to_device_ratio", 1, "stands for; give at least 2, or leave it out to"),
    (StateOptions, "ssm_dtype", "float4_e2m1fn_x2", "give one of 'float32'"),
    (StateOptions, "conv_dtype", "uint8", "give one of 'float32'"),
    (StateOptions, "full_memory_ratio", float("inf"), "it is a finite number"),
    (StateOptions, "full_memory_ratio", float("nan"), "it is a finite number"),
    (StateOptions, "slots", True, "it is a whole number; give at least 1, or leave it out"),
    (speculative, "draft_tokens", None, "it is a whole number"),
    (speculative, "draft_layers", 1.0, "it is a whole number"),
    (ParallelLayout, "tp_size", 2.0, "it is a whole number"),
    (ParallelLayout, "tp_size", True, "it is a whole number"),
    (MemoryBudget.of_caches, "free_bytes", 1e10, "it is a whole number; give 0 or more"),
]


@pytest.mark.parametrize(("make", "name", "value", "said"), CASES)
def test_a_value_that_is_none_is_refused_by_name(
    make: Callable[..., object], name: str, value: object, said: str
) -> None:
    with pytest.raises(PlanError) as error:
        make(value) if name == "free_bytes" else make(**{name: value})
    assert error.value.option == name
    assert said in str(error.value)


@pytest.mark.parametrize("layers", [(0, 32), (-1, 33), (16.0, 16)])
def test_a_stage_has_a_layer(layers: Any) -> None:
    with pytest.raises(PlanError, match=r"^pp_layers=.*each stage has at least one layer"):
        ParallelLayout(pp_size=2, pp_layers=layers)


def test_a_stored_request_that_its_class_refuses_is_no_plan() -> None:
    stored = json.loads(plan_to_json(planned("llama", page_size=16)))
    stored["plan"]["allocator"]["size"] = 17
    with pytest.raises(PlanError, match=r"is no stored plan .*; plan anew"):
        plan_from_json(json.dumps(stored))
