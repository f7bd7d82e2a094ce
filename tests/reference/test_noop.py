"""A pool that keeps nothing, and requests for leaves that lack a side."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kvproto.protocols import (
    CapabilityError,
    Declined,
    HostCopyable,
    KeyOnly,
    KeyOnlyLeafRequest,
    KVLeaf,
    KVPool,
    MHARows,
    Movable,
    NoOpLeafRequest,
    PoolTraits,
    SizeReporting,
    Transferable,
    require,
)
from kvproto.reference import KeyOnlyLeaf, NoOpLeaf, build_reference_leaf

GEOMETRY: dict[str, Any] = {
    "size": 4096,
    "page_size": 16,
    "dtype": torch.bfloat16,
    "head_num": 2,
    "head_dim": 8,
    "layer_num": 3,
    "start_layer": 5,
    "device": "cpu",
}


def make(**changes: Any) -> NoOpLeaf:
    built = build_reference_leaf(NoOpLeafRequest(**GEOMETRY | changes))
    assert isinstance(built, NoOpLeaf)
    return built


def test_nothing_is_charged_and_one_page_allocated() -> None:
    leaf = make(v_head_dim=4)
    assert (leaf.size, leaf.get_kv_size_bytes(), leaf.mem_usage) == (4096, (0, 0), 0.0)
    keys = {buffer.data_ptr() for buffer in leaf.k_buffer}
    assert (len(leaf.k_buffer), len(keys)) == (3, 1)
    assert leaf.k_buffer[0].untyped_storage().nbytes() == 16 * 2 * 8 * 2
    assert leaf.v_buffer[0].untyped_storage().nbytes() == 16 * 2 * 4 * 2
    same = make()
    assert same.k_buffer[0].data_ptr() == same.v_buffer[0].data_ptr()


def test_backends_may_shape_what_the_doors_show() -> None:
    leaf = make(v_head_dim=4, dtype=torch.float8_e4m3fn, quant_scheme="fp8_scaled")
    key, value = leaf.get_kv_buffer(7)
    assert key.view(-1, 16, 2, 8).shape == (1, 16, 2, 8)
    assert (value.shape, value.dtype) == ((16, 2, 4), torch.float8_e4m3fn)
    assert not key.float().any()
    for layer_id in (4, 8, -1, 0):
        with pytest.raises(ValueError, match=r"which owns 5\.\.7"):
            leaf.get_key_buffer(layer_id)


def test_what_needs_rows_is_refused_when_it_is_bound() -> None:
    leaf: object = make()
    for capability in (KVPool, KVLeaf, Movable, HostCopyable, Transferable, KeyOnly):
        assert not isinstance(leaf, capability)
    assert isinstance(leaf, MHARows)
    assert isinstance(leaf, SizeReporting)
    with pytest.raises(CapabilityError, match="decoding needs KVPool"):
        require(leaf, KVPool, for_="decoding")


def test_traits_say_that_nothing_is_stored() -> None:
    assert make().pool_traits == PoolTraits(kind="noop", layout="nhd")
    assert not make().pool_traits.stores_kv
    assert PoolTraits(kind="mha", layout="nhd").stores_kv


def test_keys_alone_are_built_from_their_request() -> None:
    request = KeyOnlyLeafRequest(**GEOMETRY)
    built = build_reference_leaf(request)
    assert isinstance(built, KeyOnlyLeaf)
    assert (built.pool_traits.kind, built.start_layer, built.end_layer) == ("key_only", 5, 8)
    loc = torch.tensor([1, 0, -1])
    built.set_k_buffer(6, loc, torch.ones(3, 2, 8))
    assert built.get_key_buffer(6).sum().item() == 16


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (
            KeyOnlyLeafRequest(**GEOMETRY, layout="hnd"),
            "no reference key-only leaf with layout='hnd'",
        ),
        (KeyOnlyLeafRequest(**GEOMETRY, quant_scheme="nvfp4"), "quant_scheme='nvfp4'"),
        (NoOpLeafRequest(**GEOMETRY, quant_scheme="mxfp8"), "quant_scheme='mxfp8'"),
    ],
)
def test_what_is_not_built_is_declined(request_: Any, words: str) -> None:
    declined = build_reference_leaf(request_)
    assert isinstance(declined, Declined)
    assert words in declined.reason


@pytest.mark.parametrize(
    ("kind", "changes", "words"),
    [
        (KeyOnlyLeafRequest, {"head_dim": 0}, "KeyOnlyLeafRequest.head_dim=0"),
        (NoOpLeafRequest, {"v_head_dim": 0}, "NoOpLeafRequest.v_head_dim=0"),
        (NoOpLeafRequest, {"size": 17}, "not a multiple of page_size=16"),
        (KeyOnlyLeafRequest, {"dtype": torch.float8_e5m2}, "quantised type"),
    ],
)
def test_impossible_requests_are_refused(kind: Any, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        kind(**GEOMETRY | changes)
