"""A plan that was stored is the plan."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvproto.configurator import PlanError, SpeculativeOptions, plan_from_json, plan_to_json
from tests.configurator.test_plan import PLANNED, planned


@pytest.mark.parametrize("name", PLANNED)
def test_round_trip(name: str) -> None:
    made = planned(name, page_size=64)
    assert plan_from_json(plan_to_json(made)) == made


@settings(deadline=None)
@given(st.sampled_from(PLANNED), st.sampled_from([16, 64, 256]), st.booleans())
def test_round_trip_with_drafts(name: str, page_size: int, cached: bool) -> None:
    spec = SpeculativeOptions(kind="eagle", draft_tokens=3, draft_layers=2)
    made = planned(name, page_size=page_size, prefix_cache=cached, speculative=spec)
    assert plan_from_json(plan_to_json(made)) == made


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"version": 1, "plan": {"is": "Plan"}}', '{"version": 1, "plan": 3}'],
)
def test_what_is_no_plan_is_refused(text: str) -> None:
    with pytest.raises(PlanError, match="plan anew"):
        plan_from_json(text)


def test_another_version_is_refused() -> None:
    stored = json.loads(plan_to_json(planned("llama")))
    with pytest.raises(PlanError, match="version=2: plans here have 1"):
        plan_from_json(json.dumps(stored | {"version": 2}))
