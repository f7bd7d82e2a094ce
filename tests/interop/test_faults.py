"""Known faults of sglang's real pools, seen directly; and the kit sees the same ones.

When a new release mends one, its test here fails and the kit's verdict in `results/laws.json`
changes with it.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.interop.differences import DIFFERENCES
from tests.interop.report import section
from tests.interop.verdicts import recorded

SEEN: dict[str, object] = {
    "scales_divide_the_callers_tensors": {"given": [3.0, 3.0], "left": [6.0, 12.0]},
    "padding_rows_overwrite_slot_0": {"mha": 7.0, "mla": 7.0, "mla split": 0.0},
    "negative_locations_wrap_to_the_last_row": {"mha": 7.0, "mla": 7.0, "mla split": 7.0},
    "layers_below_the_stage_wrap": {"mha": {"6": 8, "7": 9}, "mla": {"6": 8, "7": 9}},
    "fp8_does_not_saturate": {
        "float8_e4m3fn": ["0x7e", "0xfe", "0x7e"],
        "float8_e4m3fnuz": ["0x80", "0x80", "0x80"],
        "float8_e5m2": ["0x64", "0xe4", "0x7c"],
    },
    "end_layer_defaults_to_the_last_layer": [[0, 1, 2], [8, 1, 2]],
    "a_move_works_only_when_asked_for_at_construction": "AssertionError",
    "a_move_to_minus_one_writes_below_the_buffer": [0.0, 7.0, 0.0, 7.0, 0.0, 0.0, 0.0, 0.0],
    "a_ragged_size_leaves_a_short_last_page": {"mha": [20, 8], "mla": [40, 16]},
    "window_moves_write_slot_0": 7.0,
    "index_keys_are_read_before_they_are_loaded": {
        "after the index door": [],
        "after the key door": [1],
    },
    "a_window_layer_needs_more_than_locations": "AssertionError",
    "only_its_own_write_location_is_unwrapped": "IndexError",
    "a_scale_by_position_is_a_layer_on_latent_pools": {"layer 0": 0.0, "layer 1": 1.0},
    "a_narrow_row_is_spread_over_the_slot": {"stored": [5.0, 5.0], "empty": [9, 1, 0]},
    "a_mask_writes_values_as_wide_as_keys": [0.0, 5.0, 5.0, 0.0],
    "window_writes_divide_even_without_scales": "RuntimeError",
    "inherited_doors_reach_for_replaced_storage": {
        "set_mla_kv_buffer": "AttributeError",
        "move_kv_cache": "AttributeError",
    },
    "a_slot_freed_twice_is_given_away_twice": {
        "size": 4,
        "available": 6,
        "given": [3, 4, 1, 2, 1, 2],
    },
}

MHA, MLA, SWA = ("MHATokenToKVPool",), ("MLATokenToKVPool",), ("SWAKVPool over MHATokenToKVPool",)
ROWS = MHA + MLA
ALLOCATOR = ("TokenToKVPoolAllocator",)
KIT_SEES = [
    (
        "padding_rows_overwrite_slot_0",
        "leaf.slot-zero",
        ROWS,
        "set_kv_buffer(loc=[0, 3, 0, 0] torch.int32, rows 0, 2 and 3 not finite): "
        "expected key row 0 = [0, 0, 0, 0, 0, 0, ...], got [nan",
    ),
    (
        "negative_locations_wrap_to_the_last_row",
        "leaf.negative-loc",
        ROWS,
        "set_kv_buffer(loc=[-1, 2] torch.int32, ...): "
        "expected key row 447 = [0, 0, 0, 0, 0, 0, ...], got [1, ",
    ),
    (
        "layers_below_the_stage_wrap",
        "leaf.layers-foreign",
        ROWS,
        "get_key_buffer(-2) on a pool of layers [0, 1]: "
        "expected ValueError or IndexError or KeyError, got no exception",
    ),
    (
        "only_its_own_write_location_is_unwrapped",
        "leaf.write-location-object",
        MHA,
        "are valid indices (got WriteLoc)",
    ),
    (
        "scales_divide_the_callers_tensors",
        "fp8.scales",
        MHA,
        "expected inputs of 3.0, got changed inputs",
    ),
    (
        "a_mask_writes_values_as_wide_as_keys",
        "write.dcp-mask",
        MHA,
        "then with dcp_kv_mask=[True, False, True]: expected value row 2 = ",
    ),
    (
        "window_writes_divide_even_without_scales",
        "leaf.strided-input",
        SWA,
        "RuntimeError: unsupported operation: more than one element of the written-to tensor",
    ),
    (
        "a_window_layer_needs_more_than_locations",
        "swa.bare-loc",
        SWA,
        "got AssertionError:  (swa_memory_pool.py in set_kv_buffer)",
    ),
    (
        "a_slot_freed_twice_is_given_away_twice",
        "alloc.double-free",
        ALLOCATOR,
        "free(row), free(row); available_size(): expected 8, got 9",
    ),
]
"""A fault, the law it breaks, the pools on which the kit must find it, and the part of a finding
that shows it to be this fault (row 447 is the last of 448).
Not here: faults of whose law each finding is another one.
"""

BYTES_OF_INFINITY = {"float8_e4m3fn": "0x7e", "float8_e4m3fnuz": "0x7f", "float8_e5m2": "0x7b"}
"""The largest finite number of each format."""


@pytest.mark.parametrize("fault", sorted(SEEN))
def test_fault_is_there(answers: dict[str, Any], fault: str) -> None:
    assert section(answers, "faults")[fault] == SEEN[fault]


def test_every_reproduction_is_expected(answers: dict[str, Any]) -> None:
    assert set(section(answers, "faults")) == set(SEEN)
    assert {record.operation for record in DIFFERENCES["faults"]} == set(SEEN)


@pytest.mark.parametrize(("fault", "law", "pools", "finding"), KIT_SEES)
def test_the_kit_finds_what_is_there(
    fault: str, law: str, pools: tuple[str, ...], finding: str
) -> None:
    assert fault in SEEN
    for pool in pools:
        told = [v for v in recorded()[pool][law].values() if v.startswith("failed")]
        assert any(finding in verdict for verdict in told), f"{law} on {pool}: {told}"


def test_the_kit_and_the_bytes_agree_on_saturation(answers: dict[str, Any]) -> None:
    """Per format: the law fails exactly where infinity is not stored as the largest number."""
    stored = section(answers, "faults")["fp8_does_not_saturate"]
    verdict = recorded()["MHATokenToKVPool"]["fp8.saturates"]
    failed = {_format_of(spec) for spec, told in verdict.items() if told.startswith("failed")}
    assert failed == {name for name, found in stored.items() if found[2] != BYTES_OF_INFINITY[name]}
    kept = {_format_of(spec) for spec, told in verdict.items() if told == "passed-by-fallback"}
    assert kept == set(stored) - failed


def test_the_kit_passes_what_is_sound() -> None:
    """The same pools keep most clauses, so the kit does not fail whatever it is given."""
    for pool in ROWS:
        for law in ("leaf.write-read", "leaf.read-doors", "transfer.item-len", "move.overlap"):
            told = set(recorded()[pool][law].values())
            assert told == {"passed-by-fallback"}, f"{law} on {pool}"


def _format_of(spec: str) -> str:
    return next(
        name for name in BYTES_OF_INFINITY if name.removeprefix("float8_") in spec.split("-")
    )
