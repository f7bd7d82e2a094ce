"""The kernels that store what the platform builds are among those compiled for its devices."""

from __future__ import annotations

import pytest

from tests.kernels.triton.page import read_results

RESULTS = read_results()
STORES = [
    "store_tiled_rows: llama, vectorized_5d keys, bfloat16",
    "store_tiled_rows: llama, vectorized_5d values, bfloat16",
    "store_tiled_rows: llama, vectorized_5d keys, uint8",
    "store_tiled_rows: llama, vectorized_5d values, uint8",
    "store_fp8_row_sets: mistral, e4m3fnuz",
    "store_fp8_row_sets: mistral, e4m3fn",
    "store_latent_rows: e4m3fnuz",
    "store_latent_rows: fp8",
    "load_latent_rows: e4m3fnuz",
    "store_index_keys: deepseek_v32, preshuffled",
    "gather_index_keys: deepseek_v32, preshuffled",
    "move_index_keys: deepseek_v32, preshuffled",
]
"""Rows in 5-D by their bytes, whatever fp8 those are; fp8 of both, and index keys in tiles."""


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_it_is_compiled_for_the_device_and_spills_nothing(store: str, target: str) -> None:
    compiled = [made for name, made in RESULTS.items() if name.startswith(f"{store}, ")]
    assert compiled, f"no case '{store}' in benchmarks/kernel_cases"
    assert all(made["targets"][target]["spills"] == 0 for made in compiled)
