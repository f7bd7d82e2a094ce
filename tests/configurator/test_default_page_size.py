"""Where a deployment asks for no page size, it is the platform's."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from kvproto.cli import main
from kvproto.configurator import CPU, MemoryBudget, ServingOptions, find_capabilities, plan
from kvproto.protocols import PlatformCapabilities
from tests.configurator.test_plan import GIB, ONE, shape_of

WIDE = replace(CPU, default_page_size=96)


def page_of(options: ServingOptions, platform: PlatformCapabilities) -> int:
    budget = MemoryBudget.of_caches(4 * GIB)
    made = plan(shape_of("qwen3_moe"), options, ONE, budget, platform=platform)
    assert made.allocator.size % made.allocator.page_size == 0
    return made.allocator.page_size


def test_the_platforms_own_where_none_is_asked_for() -> None:
    assert page_of(ServingOptions(), WIDE) == 96
    assert page_of(ServingOptions(), CPU) == 1


def test_what_is_asked_for_goes_first() -> None:
    assert page_of(ServingOptions(page_size=16), WIDE) == 16
    assert page_of(ServingOptions(page_size=1), WIDE) == 1


@pytest.mark.parametrize(
    ("name", "pages"),
    [("cpu", 1), ("cuda", 1), ("npu", 128), ("musa", 64), ("rocm-gfx942", 64), ("rocm-gfx950", 64)],
)
def test_the_size_that_each_platform_states(
    name: str, pages: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert find_capabilities(name).default_page_size == pages
    assert main(["plan", "qwen3_moe", "--platform", name, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["plan"]["allocator"]["page_size"] == pages


def test_options_without_a_platform_have_no_page_size() -> None:
    with pytest.raises(ValueError, match=r"page_size=None: .* ServingOptions\.on"):
        _ = ServingOptions().page
    assert ServingOptions().on(WIDE).page == 96
