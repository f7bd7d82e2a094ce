"""sglang's latent pools and ours after the same calls: equal, or a clause that says why not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.interop.report import section

SAME = [
    *(f"mla: rows written in torch.{t}" for t in ("bfloat16", "float16", "float32")),
    *(f"mla: rows written in torch.float8_{t}" for t in ("e4m3fn", "e5m2")),
    "mla: a layer named beside the layer",
    "mla: read doors in torch.bfloat16",
    "mla: read doors in torch.float8_e4m3fn",
    "mla: parts read from torch.bfloat16",
    "mla: parts read from torch.float8_e4m3fn",
    "mla: rows moved in torch.bfloat16",
    "mla: rows moved in torch.float8_e5m2",
    "mla: rows copied to the host in torch.bfloat16",
    "mla: rows copied to the host in torch.float8_e4m3fn",
    *(
        f"mla: {what}, pages of {page} in torch.{dtype}"
        for what in ("descriptors", "sizes")
        for page in (1, 4, 64)
        for dtype in ("bfloat16", "float8_e4m3fn")
    ),
    "dsa: index keys stored",
    "dsa: index keys gathered",
    *(
        f"dsa: {what}, {rows}"
        for what in ("rows and index keys moved", "descriptors and sizes", "rows written")
        for rows in ("bf16", "packed")
    ),
    "dsa: descriptors and sizes, shared choice",
]
"""Buffers, descriptors, orders and sizes that must be equal, bit for bit."""

ZEROS = [0.0] * 8

DIFFERENT: dict[str, tuple[str, object, object]] = {
    "a whole row for the reserved slot": (
        "KVPool.set_kv_buffer: rows aimed at location 0 or below are dropped",
        [7.0, *ZEROS[:2], 7.0, *ZEROS[:8]],
        [*ZEROS[:3], 7.0, *ZEROS[:8]],
    ),
    "a row for nowhere": (
        "KVPool.set_kv_buffer: rows aimed at location 0 or below are dropped",
        [7.0, 7.0],
        [0.0, 7.0],
    ),
    "a move to the reserved slot and to nowhere": (
        "Movable.move_kv_cache: targets of 0 and below are dropped",
        [7.0, *ZEROS[:2], 7.0, *ZEROS[:7], 7.0],
        [*ZEROS[:3], 7.0, *ZEROS[:8]],
    ),
    "a row too narrow": (
        "KVPool.set_kv_buffer: raises ValueError for rows of another width",
        [5.0] * 24,
        "ValueError",
    ),
    "a large number in e4m3fnuz": (
        "KVPool.set_kv_buffer: an fp8 pool saturates and keeps NaN",
        0x80,
        0x7F,
    ),
    "the layer before the stage": (
        "KVPool.get_key_buffer: raises ValueError for a layer the pool does not own",
        True,
        "ValueError",
    ),
    "a fifth argument by position": (
        "LayerOverrideWrite.set_kv_buffer: options are keyword arguments, a scale is no layer",
        [0.0, 7.0],
        "TypeError",
    ),
    "a whole row into packed rows": (
        "KVPool.set_kv_buffer is advertised and works",
        "AssertionError",
        [0x7E, 0x7E],
    ),
    "a block of zeros in a packed row": (
        "MLALatent: what is read is what was written; theirs stores -448 * 0.0, which reads -0.0",
        [0x00, 0xFE],
        [0x00],
    ),
    "an index key for the reserved slot": (
        "IndexerCapable.set_index_k_scale_buffer: slot 0 and below are dropped",
        True,
        False,
    ),
    "index keys of a strided tensor": (
        "writers take any strides",
        "AssertionError",
        True,
    ),
    "index keys of the layer before the stage": (
        "IndexerCapable.get_index_k_with_scale_buffer: raises ValueError for a layer not owned",
        True,
        "ValueError",
    ),
    "a host copy of rows with index keys": (
        "HostCopyable: is advertised and works on every device; no other row changes",
        "AssertionError",
        [True, True],
    ),
}
"""Script -> the clause that sglang's pool breaks, what it shows, what ours shows."""


@pytest.mark.parametrize("script", SAME)
def test_both_hold_the_same(answers: dict[str, Any], script: str) -> None:
    found = section(answers, "latent")[script]
    assert found["ours"] == found["theirs"]
    assert not isinstance(found["ours"], str), f"both raised {found['ours']}"


@pytest.mark.parametrize("script", sorted(DIFFERENT))
def test_ours_keeps_the_clause_that_theirs_breaks(answers: dict[str, Any], script: str) -> None:
    clause, theirs, ours = DIFFERENT[script]
    found = section(answers, "latent")[script]
    assert found["ours"] == ours, clause
    assert found["theirs"] == theirs, f"mended? {clause}"


def test_every_script_is_expected(answers: dict[str, Any]) -> None:
    told = {name for name, found in section(answers, "latent").items() if isinstance(found, dict)}
    assert told == {*SAME, *DIFFERENT}


def test_the_interpreter_still_needs_its_rounding_mended(answers: dict[str, Any]) -> None:
    """When this fails, triton is mended and `rounding.py` may go."""
    assert section(answers, "latent")["casts that the interpreter gets wrong"] > 0
