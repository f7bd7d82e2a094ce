"""Toy classes that have every member of a protocol, or forward some."""

from __future__ import annotations

from typing import Any


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
