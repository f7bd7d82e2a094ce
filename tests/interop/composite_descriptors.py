# pyright: basic, reportMissingImports=false
"""What composites tell of their buffers, sizes, layers and widths."""

from __future__ import annotations

from typing import Any

from tests.interop.composite_scripts import (
    HEADS,
    HYBRID,
    SWA,
    THEIRS,
    leaves,
    on,
    state_of,
    tensors,
    whole,
)

__all__: list[str] = []


@on(*SWA, *THEIRS, "hybrid over mha", "hybrid over mla")
def descriptors(pool: Any) -> object:
    """Pointers as places in the list of buffers: the order is part of the answer."""
    ptrs = [t.data_ptr() for leaf in leaves(pool) for t in tensors(leaf)]
    ptrs += [layer.data_ptr() for tensor in state_of(pool) for layer in tensor]
    told = [pool.get_contiguous_buf_infos(), pool.get_state_buf_infos()]
    return [[[ptrs.index(p) for p in infos[0]], *infos[1:]] for infos in told]


@on(*SWA, *HYBRID, *THEIRS, "swa over dsa and mla")
def sizes_and_names(pool: Any) -> object:
    numbers = ("size", "size_swa", "page_size", "swa_layer_nums", "full_layer_nums")
    mappings = ("layers_mapping", "full_attention_layer_id_mapping")
    return {
        "bytes": sum(whole(pool.get_kv_size_bytes())),
        "numbers": [getattr(pool, name, None) for name in numbers],
        "GiB": float(pool.mem_usage),
        "mappings": [sorted(getattr(pool, name, {}).items()) for name in mappings],
        "dtype": str(pool.dtype),
    }


@on(*HYBRID)
def state_regions(pool: Any) -> object:
    return [
        pool.get_state_layer_ids(),
        pool.get_state_dim_per_tensor(),
        pool.get_state_slice_outer_counts(),
        pool.get_state_conv_shard_groups(),
        pool.get_state_buf_infos()[1:],
        pool.cpu_copy_carries_mamba,
    ]


@on("hybrid over mha", "hybrid over mla")
def layer_ids_of_regions(pool: Any) -> object:
    return pool.get_kv_layer_ids()


@on(*HEADS, "hybrid over mha")
def width_of_a_value(pool: Any) -> object:
    return pool.get_v_head_dim()
