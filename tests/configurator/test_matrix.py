"""Every model in every way it is served, at the sizes of a real device and without a byte.

The same deployments in a few pages that are really allocated, written and read are the kit's own
run on the CPU, in tests/conformance/test_mutants.py.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvproto.configurator import plan_from_json, plan_to_json
from kvproto.conformance.deployment import Deployer, Deployment
from kvproto.conformance.factory import Factory
from kvproto.conformance.platform_parts import is_of_platforms, platform_laws
from kvproto.conformance.runner import Built, How, run_laws
from kvproto.conformance.specs.models import (
    MODEL_SPECS,
    MODELS,
    WAYS,
    ModelRequest,
    deployment_named,
)
from kvproto.protocols import Declined
from kvproto.reference.platforms import cpu
from tests.conformance.test_mutants import DECLINED

LAWS = [law for law in platform_laws() if is_of_platforms(law)]
HOW = How(0, "hazardous")


def at_real_size(request: ModelRequest) -> ModelRequest:
    options = replace(request.options, max_total_tokens=None)
    return replace(request, options=options, device="meta")


def answering(made: Deployment) -> Factory:
    return lambda _request: made


@pytest.mark.parametrize("model", MODELS)
def test_every_way_is_planned_and_built_at_real_sizes(model: str) -> None:
    deployer, built, why = Deployer(cpu()), list[str](), list[str]()
    for spec in (spec for spec in MODEL_SPECS if spec.request.model == model):
        real = replace(spec, request=at_real_size(spec.request))
        made = deployer(real.request)
        if isinstance(made, Declined):
            why.append(made.reason)
            continue
        subject = Built(real, made, answering(made), called=model)
        results = run_laws([subject], LAWS, HOW, lambda *_: None)
        assert results
        assert [f"{r.law} on {r.spec}: {r.detail}" for r in results if r.status != "passed"] == []
        if made.plan is not None:
            built.append(spec.name.removeprefix(f"{model}-"))
            assert plan_from_json(plan_to_json(made.plan)) == made.plan
            assert made.plan.cache_bytes - made.plan.allocated_bytes >= 0
    assert all(reason.startswith(("cannot be planned: ", *DECLINED)) for reason in why)
    assert len(built) >= len(WAYS) // 2 or model == "deepseek_v4", why


def test_what_nothing_is_built_of_is_refused_by_its_subsystem() -> None:
    made = Deployer(cpu())(deployment_named("deepseek_v4-page1").request)
    assert not isinstance(made, Declined)
    assert "offers no compressed_pool" in made.refusal
