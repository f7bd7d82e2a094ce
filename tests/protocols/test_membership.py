"""Honest toy classes are members; a renamed, narrowed or forwarded member is the reason given."""

from __future__ import annotations

from typing import Any

import pytest

from kvproto.protocols import (
    BlockScaled,
    HostCopyable,
    IndexerCapable,
    PagedAllocator,
    RequestPool,
    ScaledWrite,
    SlotAllocator,
    SWACapable,
    SWAComposite,
    explain,
    supports,
)
from tests.protocols.members import (
    CopyingPool,
    IndexForwarder,
    IndexLeaf,
    PageAllocator,
    PlainWriter,
    Requests,
    ScaledLeaf,
    ScaleForwarder,
    TokenAllocator,
    WindowPair,
)

MEMBERS = [
    (CopyingPool(), HostCopyable),
    (ScaledLeaf(), BlockScaled),
    (IndexLeaf(), IndexerCapable),
    (WindowPair(), SWAComposite),
    (WindowPair(), SWACapable),
    (PageAllocator(), PagedAllocator),
    (PageAllocator(), SlotAllocator),
    (Requests(), RequestPool),
]


@pytest.mark.parametrize(
    ("pool", "protocol"), MEMBERS, ids=[f"{type(p).__name__}-{q.__name__}" for p, q in MEMBERS]
)
def test_a_class_with_everything_is_one(pool: object, protocol: type) -> None:
    assert explain(pool, protocol) == []
    assert isinstance(pool, protocol)
    assert supports(pool, protocol)


def variant(cls: type, **members: Any) -> Any:
    return type(f"{cls.__name__}Variant", (cls,), members)()


def narrow_copy(self: Any, indices: Any, mamba_indices: Any = None) -> Any:
    return [indices, mamba_indices]


def renamed_key(self: Any, layer_id: Any, loc: Any, key: Any, index_k_scale: Any) -> None: ...


def without_scale(self: Any, layer_id: Any, loc: Any, index_k: Any) -> None: ...


def by_position(self: Any, free_index: Any, start: Any) -> None: ...


def renamed_count(
    self: Any,
    prefix_lens: Any,
    prefix_lens_cpu: Any,
    seq_lens: Any,
    seq_lens_cpu: Any,
    last_loc: Any,
    num_tokens: Any,
) -> None: ...


def needs_rows(self: Any, seq_lens: Any, seq_lens_cpu: Any, last_loc: Any, rows: Any) -> None: ...


def method(self: Any) -> int:
    return 16


def needs_count(self: Any, reqs: Any, need_size: Any) -> None: ...


FAULTS = [
    (
        variant(CopyingPool, get_cpu_copy=narrow_copy),
        HostCopyable,
        "get_cpu_copy: has no parameter 'req_pool_index', which callers pass",
    ),
    (
        variant(CopyingPool, load_cpu_copy=None),
        HostCopyable,
        "load_cpu_copy: set to None, declared as not supported",
    ),
    (
        variant(IndexLeaf, set_index_k_scale_buffer=renamed_key),
        IndexerCapable,
        "set_index_k_scale_buffer: parameter 3 is named 'key', callers name it 'index_k'",
    ),
    (
        variant(IndexLeaf, set_index_k_scale_buffer=without_scale),
        IndexerCapable,
        "set_index_k_scale_buffer: has no parameter 'index_k_scale', which callers pass",
    ),
    (
        variant(PageAllocator, alloc_extend=renamed_count),
        PagedAllocator,
        "alloc_extend: parameter 6 is named 'num_tokens', callers name it 'extend_num_tokens'",
    ),
    (
        variant(PageAllocator, alloc_decode=needs_rows),
        PagedAllocator,
        "alloc_decode: needs an extra argument 'rows', which no caller passes",
    ),
    (
        variant(WindowPair, size_swa=method),
        SWAComposite,
        "size_swa: is a method, the protocol wants a data member (attribute or property)",
    ),
    (
        variant(Requests, alloc=needs_count),
        RequestPool,
        "alloc: needs an extra argument 'need_size', which no caller passes",
    ),
    (
        IndexForwarder(IndexLeaf()),
        IndexerCapable,
        "index_k_with_scale_buffer: missing",
    ),
    (
        variant(ScaledLeaf, get_kv_scale_buffer=None),
        BlockScaled,
        "get_kv_scale_buffer: set to None, declared as not supported",
    ),
]


@pytest.mark.parametrize(
    ("pool", "protocol", "expected"), FAULTS, ids=[expected for _, _, expected in FAULTS]
)
def test_one_wrong_member_is_named(pool: object, protocol: type, expected: str) -> None:
    assert explain(pool, protocol) == [expected]
    assert not isinstance(pool, protocol)
    assert not supports(pool, protocol)


def test_a_keyword_that_moved_is_named_twice() -> None:
    assert explain(variant(PageAllocator, free_segment=by_position), PagedAllocator) == [
        "free_segment: has no parameter 'start_pos', which callers pass",
        "free_segment: needs an extra argument 'start', which no caller passes",
    ]


def test_a_window_pool_without_leaves_is_capable_but_no_composite() -> None:
    class Windowed:
        full_to_swa_index_mapping = None
        register_mapping = WindowPair.register_mapping
        translate_loc_from_full_to_swa = WindowPair.translate_loc_from_full_to_swa

    assert isinstance(Windowed(), SWACapable)
    assert explain(Windowed(), SWAComposite) == [
        f"{name}: missing"
        for name in (
            "full_kv_pool",
            "layers_mapping",
            "size_swa",
            "swa_kv_pool",
            "swa_layer_nums",
        )
    ]


def test_an_allocator_of_single_tokens_is_not_paged() -> None:
    assert isinstance(TokenAllocator(), SlotAllocator)
    assert explain(TokenAllocator(), PagedAllocator) == [
        "alloc_decode: missing",
        "alloc_extend: missing",
    ]


def test_forwarding_the_doors_of_a_leaf_is_not_owning_its_rows() -> None:
    assert explain(ScaleForwarder(ScaledLeaf()), BlockScaled) == [
        "k_scale_buffer: missing",
        "v_scale_buffer: missing",
    ]
    assert not isinstance(ScaleForwarder(ScaledLeaf()), BlockScaled)


def test_scales_that_were_not_allocated_are_not_owned() -> None:
    unquantized = ScaledLeaf()
    unquantized.k_scale_buffer = None
    assert explain(unquantized, BlockScaled) == ["k_scale_buffer: is None"]
    assert not isinstance(unquantized, BlockScaled)
    assert isinstance(ScaledLeaf(), BlockScaled)


def test_a_window_table_may_be_none() -> None:
    assert isinstance(WindowPair(), SWAComposite)
    assert not isinstance(object.__new__(WindowPair), SWAComposite)


def test_a_fifth_argument_that_is_no_scale_is_named() -> None:
    assert explain(PlainWriter(), ScaledWrite) == [
        "set_kv_buffer: parameter 5 is named 'layer_id_override', callers name it 'k_scale'",
        "set_kv_buffer: has no parameter 'v_scale', which callers pass",
    ]
