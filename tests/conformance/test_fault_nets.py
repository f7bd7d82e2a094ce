"""What plugins got wrong is caught, by the nets that docs/faults.md says."""

from __future__ import annotations

from typing import Any

import pytest

from kvproto.conformance import check_pool
from kvproto.conformance.mutants.plugin_faults import PLUGIN_FAULTS, PluginFault, build_plain
from kvproto.conformance.mutants.plugin_pool import PluginPool
from kvproto.conformance.specs import spec_named
from kvproto.protocols import Declined, MHALeafRequest, supports
from tests.conformance.fault_nets import (
    CLAIMED,
    PAGE,
    SECTION,
    caught_by_checkers,
    constructed,
    nets_of,
    of_plugins,
    validated,
)


def healthy(request: Any) -> Any:
    if isinstance(request, MHALeafRequest) and request.layout == "nhd":
        return build_plain(PluginPool, request)
    return Declined("rows of heads, one after the other")


def test_without_a_fault_the_pool_is_caught_by_nothing() -> None:
    """Whatever is said of the others is therefore said of their fault."""
    specs = ["mha-bf16-page16-stage", "mha-fp8-e4m3fn-page16", "mha-fp8-e4m3fnuz-page4"]
    report = check_pool(healthy, specs=[*specs, "swa-page4-window-first"])
    assert report.ok
    assert {r.rule.family for r in report.results} >= {"leaf", "transfer", "fp8", "host-copy"}
    assert constructed(healthy) == validated(healthy) == ""
    pool = healthy(spec_named("mha-bf16-page1").request)
    assert all(supports(pool, protocol) for protocol in CLAIMED)
    assert set(caught_by_checkers()) <= {fault.pool.__name__ for fault in PLUGIN_FAULTS}


@pytest.mark.parametrize("fault", PLUGIN_FAULTS, ids=lambda fault: fault.pool.__name__)
def test_the_kit_names_it(fault: PluginFault) -> None:
    assert nets_of(fault).kit.startswith(f"{fault.kills}: ")


def test_every_net_catches_something() -> None:
    nets = [nets_of(fault) for fault in PLUGIN_FAULTS]
    assert sum(bool(each.checkers) for each in nets) == 2
    assert sum(bool(each.construction) for each in nets) == 1
    assert sum("expected" in each.debug for each in nets) >= 1


def test_the_page_is_what_the_nets_say() -> None:
    written, section, _ = PAGE.read_text().partition(SECTION)
    assert section
    assert written == of_plugins(), "python -m tests.conformance.fault_nets --write"
