"""sglang's composites and ours after the same calls: equal, or a clause that says why not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.interop.report import section

HEADS = ("swa, page 1", "swa, page 4", "swa, values narrower")
SWA = (*HEADS, "swa, fp8")
LATENT_SWA = "swa over dsa and mla"
HYBRID = ("hybrid over mha", "hybrid over mla", "hybrid over dsa")
THEIR_PARTS = ("swa over sglang's leaves", "hybrid over sglang's parts")
STATE = ("state", "state, speculative")

EQUAL_ON: dict[str, tuple[str, ...]] = {
    "rows written": (*SWA, LATENT_SWA, *HYBRID, *THEIR_PARTS),
    "latent parts written": (LATENT_SWA, *HYBRID[1:]),
    "index keys written": (LATENT_SWA, "hybrid over dsa"),
    "locations translated": SWA,
    "tokens moved": (*SWA, *HYBRID, *THEIR_PARTS),
    "tokens copied to the host": (*SWA, *HYBRID[:2], "hybrid over sglang's parts"),
    "descriptors": (*SWA, *HYBRID[:2], *THEIR_PARTS),
    "sizes and names": (*SWA, LATENT_SWA, *HYBRID, *THEIR_PARTS),
    "state regions": HYBRID,
    "layer ids of regions": HYBRID[:2],
    "width of a value": (*HEADS, "hybrid over mha"),
    "state cleared and copied": STATE,
    "state copied to the host": STATE,
    "state descriptors": STATE,
    "state tensors": STATE,
}
"""Buffers, descriptors, orders, names and sizes that must be equal, bit for bit."""

SAME = [f"{script}; {family}" for script, families in EQUAL_ON.items() for family in families]

DIFFERENT: dict[str, tuple[str, object, object]] = {
    "a window layer given plain locations; swa, page 4": (
        "KVPool.set_kv_buffer: backends pass the tensor itself or an object, on composites too",
        "AssertionError",
        [0.0, 0.0, 0.0, 1.0, *[0.0] * 8],
    ),
    "a full layer given its own locations; swa, page 4": (
        "WriteLocation.full_loc: the same tokens in the full leaf's space; None means loc",
        [1.0, 0.0],
        [0.0, 1.0],
    ),
    "latent parts given two spaces; hybrid over mla": (
        "WriteLocation.full_loc: the same tokens in the full leaf's space; None means loc",
        [True, False],
        [False, True],
    ),
    "a move to a token without a peer; swa, page 4": (
        "Movable.move_kv_cache: targets without a peer in a window leaf are dropped",
        [7.0, 0.0, 0.0, 7.0],
        [0.0, 0.0, 0.0, 7.0],
    ),
    "a move of a token without a peer; swa, page 4": (
        "Movable.move_kv_cache: copies everything kept for the source, here nothing",
        [0.0, 0.0, 0.0, 0.0],
        [0.0, 0.0, 0.0, 7.0],
    ),
    "a layer of another stage; swa, page 4": (
        "KVPool.get_key_buffer: ValueError for a layer the pool does not own",
        "KeyError",
        "ValueError",
    ),
    "a negative location translated; swa, page 4": (
        "SWACapable.translate_loc_from_full_to_swa: nothing below 0 wraps into the table",
        [-1, 0],
        [-1, -1],
    ),
    "where the stage ends; swa, page 4": (
        "issue 4, case 22: start_layer, end_layer and ids are readable on every pool",
        "AttributeError",
        [0, 5],
    ),
    "where the stage ends; hybrid over mha": (
        "issue 4, case 22: start_layer, end_layer and ids are readable on every pool",
        "AttributeError",
        [0, 4],
    ),
    "which layers are exported; swa, page 4": (
        "LayerIdReporting: where a pool cannot say it, peers pair regions by position",
        "AttributeError",
        [1, 3, 1, 3],
    ),
    "bytes exported of those owned; swa over dsa and mla": (
        "Transferable: all per-token bytes are exported, index keys too",
        [884736, 935424],
        [935424, 935424],
    ),
    "bytes exported of those owned; hybrid over dsa": (
        "Transferable: all per-token bytes are exported, index keys too",
        [442368, 493056],
        [493056, 493056],
    ),
    "index keys asked for while they load; swa over dsa and mla": (
        "KVPool.register_layer_transfer_counter: wait before a read door hands a layer out",
        [],
        [3],
    ),
    "latent window rows restored in part; swa over dsa and mla": (
        "HostCopyable.load_cpu_copy: token i of the copy goes to indices[i]",
        "IndexError",
        [*[0.0] * 6, 8.0, 0.0],
    ),
    "a copy restored without its state; hybrid over mha": (
        "HostCopyable.cpu_copy_carries_mamba: the copy holds the state too; it is not dropped",
        None,
        "ValueError",
    ),
    "the callers layer object while it writes; hybrid over mla": (
        "AttentionLayer.layer_id is read-only: the global id of the layer in the model",
        [1, 3],
        [],
    ),
    "a slot below zero cleared; state": (
        "StatePool.clear_slots: the slots that are given, and no other",
        [0.0, 1.0, 2.0, 3.0, 0.0],
        [0.0, 1.0, 2.0, 3.0, 4.0],
    ),
    "state copied to the reserved slot; state": (
        "StatePool: slot 0 is reserved and stays zero",
        [2.0, 1.0, 2.0, 3.0, 4.0],
        [0.0, 1.0, 2.0, 3.0, 4.0],
    ),
    "a position below the first layer; state": (
        "StatePool.mamba2_layer_cache: layer_id is a position; nothing wraps",
        7.0,
        "ValueError",
    ),
}
"""Script -> the clause, what sglang's pool shows, what ours does."""


@pytest.mark.parametrize("script", SAME)
def test_is_the_same_bit_for_bit(answers: dict[str, Any], script: str) -> None:
    seen = section(answers, "composites")[script]
    assert not isinstance(seen["ours"], str), f"raised {seen['ours']}"
    assert seen["ours"] == seen["theirs"]


@pytest.mark.parametrize("script", sorted(DIFFERENT))
def test_differs_by_a_clause(answers: dict[str, Any], script: str) -> None:
    clause, theirs, ours = DIFFERENT[script]
    seen = section(answers, "composites")[script]
    assert seen["ours"] == ours, clause
    assert seen["theirs"] == theirs, f"sglang has changed; is {clause!r} kept now?"


def test_every_script_is_expected(answers: dict[str, Any]) -> None:
    assert set(section(answers, "composites")) == {*SAME, *DIFFERENT}
