"""Tables and states are built from what sglang's configurator knows, unless it asks for more.

sglang is not here: what is read of it is a stand-in with its names. It is seen for real in
tests/interop/engine.
"""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from kvproto.adapters.sglang.accounts import request_table, state_request_table
from kvproto.adapters.sglang.state import SGLangStateReqToToken

ROWS: dict[str, Any] = {"max_num_reqs": 3, "extra_max_context_len": 4}
SHAPE = SimpleNamespace(conv=[(6, 3)], temporal=(2, 4, 4))
DTYPE = SimpleNamespace(conv=torch.bfloat16, temporal=torch.float32)


class Configurator(SimpleNamespace):
    """What `KVCacheConfigurator` has, of a hybrid of which this stage has layers 4 and 6."""

    device = "cpu"
    model_config = SimpleNamespace(context_len=16)
    layer_info = SimpleNamespace(start_layer=4)
    mambaish_config = SimpleNamespace(mamba2_cache_params=SimpleNamespace(shape=SHAPE, dtype=DTYPE))
    side_states: dict[str, Any] = {}  # noqa: RUF012

    def _get_mamba_layer_ids_for_req_pool(self) -> list[int]:
        return [4, 6]

    def _get_ple_req_pool_kwargs(self) -> dict[str, Any]:
        return self.side_states


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """sglang's settings, which a test may change."""
    mamba = SimpleNamespace(
        enable_linear_replayssm=False,
        enable_linear_replayssm_spec=False,
        enable_int8_mamba_checkpoint=False,
        enable_mamba_extra_buffer=False,
        enable_mamba_extra_buffer_lazy=False,
    )
    settings = SimpleNamespace(
        mamba=mamba,
        spec=SimpleNamespace(speculative_algorithm=None),
        memory=SimpleNamespace(enable_page_major_kv_layout=False),
        schedule=SimpleNamespace(max_mamba_cache_size=5, disable_overlap_schedule=True),
        memory_pool=SimpleNamespace(_is_cpu=True, _cpu_has_amx_support=False),
    )
    features = SimpleNamespace(enable_memory_saver=False)
    context: Any = ModuleType("sglang.srt.runtime_context")
    context.get_exec = lambda: SimpleNamespace(mamba=mamba, features=features)
    context.get_spec = lambda: settings.spec
    context.get_memory = lambda: settings.memory
    context.get_schedule = lambda: settings.schedule
    mem_cache: Any = ModuleType("sglang.srt.mem_cache")
    mem_cache.memory_pool = settings.memory_pool
    for module in (ModuleType("sglang"), ModuleType("sglang.srt"), context, mem_cache):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return settings


def test_a_table_is_as_large_as_sglangs(told: SimpleNamespace) -> None:
    made = request_table(pytest.fail, Configurator(), **ROWS)
    assert made.req_to_token.shape == (4, 20)
    assert (made.size, made.max_context_len, made.pre_alloc_size) == (3, 20, 0)


def test_states_are_of_the_layers_and_slots_that_sglang_counts(told: SimpleNamespace) -> None:
    made = state_request_table(pytest.fail, Configurator(), **ROWS)
    assert type(made) is SGLangStateReqToToken
    assert made.req_to_token.shape == (4, 20)
    assert (made.mamba_allocator.size, made.mamba_pool.size) == (5, 5)
    assert (made.mamba_map, made.start_layer) == ({4: 0, 6: 1}, 4)
    assert made.mamba_initial_tracking_slots == 0


def test_snapshots_are_those_that_sglang_asks_for(told: SimpleNamespace) -> None:
    told.mamba.enable_mamba_extra_buffer = True
    made = state_request_table(pytest.fail, Configurator(), **ROWS)
    assert (made.enable_mamba_extra_buffer, made.mamba_initial_tracking_slots) == (True, 1)
    told.schedule.disable_overlap_schedule = False
    assert (
        state_request_table(pytest.fail, Configurator(), **ROWS).mamba_initial_tracking_slots == 2
    )


@pytest.mark.parametrize(
    ("where", "name", "value"),
    [
        ("spec", "speculative_algorithm", "EAGLE"),
        ("mamba", "enable_linear_replayssm", True),
        ("mamba", "enable_linear_replayssm_spec", True),
        ("mamba", "enable_int8_mamba_checkpoint", True),
        ("memory", "enable_page_major_kv_layout", True),
        ("memory_pool", "_cpu_has_amx_support", True),
    ],
)
def test_more_than_tensors_by_slot_is_left_to_sglang(
    told: SimpleNamespace, where: str, name: str, value: object
) -> None:
    setattr(vars(told)[where], name, value)
    assert _built(Configurator()) == ROWS


def test_states_of_n_grams_are_left_to_sglang(told: SimpleNamespace) -> None:
    assert _built(Configurator(side_states={"ngram_context_len": 2})) == ROWS


def _built(configurator: Configurator) -> Any:
    """What sglang's own method is called with, where it is."""

    def build(asked: Configurator, **rows: int) -> dict[str, int]:
        assert asked is configurator
        return rows

    return state_request_table(build, configurator, **ROWS)
