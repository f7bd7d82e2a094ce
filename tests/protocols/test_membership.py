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


class CopyingPool:
    cpu_copy_carries_mamba = False

    def get_cpu_copy(
        self, indices: Any, mamba_indices: Any = None, req_pool_index: Any = None
    ) -> Any:
        return [indices, mamba_indices, req_pool_index]

    def load_cpu_copy(
        self, kv_cache_cpu: Any, indices: Any, mamba_indices: Any = None, req_pool_index: Any = None
    ) -> Any:
        self.restored = (kv_cache_cpu, indices, mamba_indices, req_pool_index)


class ScaledLeaf:
    def __init__(self) -> None:
        self.k_scale_buffer: Any = [0, 1]
        self.v_scale_buffer: Any = [2, 3]

    def get_kv_scale_buffer(self, layer_id: Any) -> Any:
        return self.k_scale_buffer[layer_id], self.v_scale_buffer[layer_id]

    def get_kv_scale_buf_infos(self) -> Any:
        return [], [], []


class ScaleForwarder:
    def __init__(self, leaf: Any) -> None:
        self.leaf = leaf

    def get_kv_scale_buffer(self, layer_id: Any) -> Any:
        return self.leaf.get_kv_scale_buffer(layer_id)

    def get_kv_scale_buf_infos(self) -> Any:
        return self.leaf.get_kv_scale_buf_infos()


class IndexDoors:
    def __init__(self, leaf: Any) -> None:
        self.leaf = leaf

    def get_index_k_with_scale_buffer(self, layer_id: Any) -> Any:
        return self.leaf.get_index_k_with_scale_buffer(layer_id)

    def set_index_k_scale_buffer(
        self, layer_id: Any, loc: Any, index_k: Any, index_k_scale: Any
    ) -> Any:
        self.leaf.set_index_k_scale_buffer(layer_id, loc, index_k, index_k_scale)

    def get_index_k_scale_buffer(
        self,
        layer_id: Any,
        seq_len_tensor: Any,
        page_indices: Any,
        seq_len_sum: Any,
        max_seq_len: Any,
    ) -> Any:
        return self.leaf.get_index_k_scale_buffer(
            layer_id, seq_len_tensor, page_indices, seq_len_sum, max_seq_len
        )


class IndexForwarder(IndexDoors):
    @property
    def index_head_dim(self) -> Any:
        return self.leaf.index_head_dim

    @property
    def index_page_size(self) -> Any:
        return self.leaf.index_page_size

    @property
    def index_kpool(self) -> Any:
        return self.leaf.index_kpool


class IndexLeaf(IndexDoors):
    index_head_dim = 128
    index_page_size = 64
    index_kpool = 1

    def __init__(self) -> None:
        super().__init__(leaf=None)
        self.index_k_with_scale_buffer = [b"one layer"]


class WindowPair:
    layers_mapping = {0: (0, False), 1: (0, True)}  # noqa: RUF012
    swa_layer_nums = 1
    size_swa = 16

    def __init__(self) -> None:
        self.full_kv_pool = object()
        self.swa_kv_pool = object()
        self.full_to_swa_index_mapping = None

    def register_mapping(self, full_to_swa_index_mapping: Any) -> Any:
        self.full_to_swa_index_mapping = full_to_swa_index_mapping

    def translate_loc_from_full_to_swa(self, kv_indices: Any) -> Any:
        return kv_indices


class TokenAllocator:
    size = 64
    page_size = 4
    device = "cpu"

    def get_kvcache(self) -> Any:
        return None

    def available_size(self) -> Any:
        return self.size

    def alloc(self, need_size: Any) -> Any:
        return list(range(need_size))

    def free(self, free_index: Any) -> Any:
        pass

    def free_segment(self, free_index: Any, *, start_pos: Any) -> Any:
        pass

    def free_segments(self, segments: Any) -> Any:
        pass

    def free_group_begin(self) -> Any:
        pass

    def free_group_end(self) -> Any:
        pass

    def clear(self) -> Any:
        pass


class PageAllocator(TokenAllocator):
    def alloc_extend(
        self,
        prefix_lens: Any,
        prefix_lens_cpu: Any,
        seq_lens: Any,
        seq_lens_cpu: Any,
        last_loc: Any,
        extend_num_tokens: Any,
        num_new_pages: Any = None,
    ) -> Any:
        return list(range(extend_num_tokens))

    def alloc_decode(self, seq_lens: Any, seq_lens_cpu: Any, last_loc: Any) -> Any:
        return list(seq_lens)


class Requests:
    size = 8
    max_context_len = 32
    device = "cpu"
    pre_alloc_size = 0
    req_to_token: Any
    req_generation: Any

    def write(self, indices: Any, values: Any) -> Any:
        pass

    def available_size(self) -> Any:
        return self.size

    def alloc(self, reqs: Any) -> Any:
        return [1 + i for i, _ in enumerate(reqs)]

    def free(self, req: Any) -> Any:
        pass

    def clear(self) -> Any:
        pass


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


class PlainWriter:
    size = page_size = start_layer = 0
    dtype = "bfloat16"
    device = "cpu"

    def get_key_buffer(self, layer_id: Any) -> Any:
        pass

    get_value_buffer = get_kv_buffer = get_key_buffer

    def set_kv_buffer(
        self, layer: Any, loc_info: Any, cache_k: Any, cache_v: Any, layer_id_override: Any = None
    ) -> Any:
        pass

    def register_layer_transfer_counter(self, layer_transfer_counter: Any) -> Any:
        pass


def test_a_fifth_argument_that_is_no_scale_is_named() -> None:
    assert explain(PlainWriter(), ScaledWrite) == [
        "set_kv_buffer: parameter 5 is named 'layer_id_override', callers name it 'k_scale'",
        "set_kv_buffer: has no parameter 'v_scale', which callers pass",
    ]
