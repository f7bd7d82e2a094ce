# pyright: basic, reportMissingImports=false
"""sglang's own host pools, unmodified, behind its NPU pools and behind ours."""

from __future__ import annotations

from typing import Any

import torch

from tests.interop import npu_kvcacheio  # noqa: F401  (before sglang's host pools)

from sglang.srt.mem_cache.device_pool_info import (  # isort: skip
    KVBufferLayout,
    KVBuffers,
    MHABufferInfo,
    MLABufferInfo,
    MLASplitBuffers,
)
from sglang.srt.mem_cache.pool_host.base import host_memory_budget_scope  # isort: skip
from sglang.srt.mem_cache.pool_host.mha import MHATokenToKVPoolHost  # isort: skip
from sglang.srt.mem_cache.pool_host.mla import MLATokenToKVPoolHost  # isort: skip

from tests.interop.npu_indexed import DSA, DSA_PACKED
from tests.interop.npu_latent import MLA, MLA_NZ, native
from tests.interop.npu_mha import MHA, MHA_FIA
from tests.interop.npu_scripts import bytes_of
from tests.interop.side_by_side import digest

__all__: list[str] = []

LATENTS, HEADS = (MLA, MLA_NZ, DSA, DSA_PACKED), (MHA, MHA_FIA)


def buffer_info(pool: Any) -> MLABufferInfo:
    """What sglang's pool says of itself, and the same of ours by its native planes."""
    if hasattr(pool, "_mla_buffer_info"):
        return pool._mla_buffer_info()

    def planes() -> MLASplitBuffers:
        given = native(pool)
        return MLASplitBuffers(**{n: getattr(given, n) for n in MLASplitBuffers.__struct_fields__})

    held = planes()
    return MLABufferInfo(
        buffers=held,
        native_buffers=planes,
        data_ptrs=None,
        layer_indices=tuple(range(pool.layer_num)),
        device_layer_num=pool.layer_num,
        page_size=pool.page_size,
        kv_lora_rank=pool.kv_lora_rank,
        qk_rope_head_dim=pool.qk_rope_head_dim,
        kv_cache_dim=held.k_width + held.v_width,
        dtype=pool.store_dtype,
        device=held.k.device,
        packed_fp8=pool.pool_traits.quant_scheme == "dsa_fp8_packed",
    )


def told(info: MLABufferInfo) -> object:
    """Everything but where planes are and how their bytes are called."""
    info.validate()
    held: Any = info.buffers
    planes = [
        None if plane is None else [list(plane.shape), plane.dtype.itemsize * plane.numel()]
        for plane in (held.k, held.v, held.index_k, held.index_scales)
    ]
    widths = [held.k_width, held.v_width, held.index_width]
    rows = [info.kv_cache_dim, info.dtype.itemsize, info.packed_fp8]
    return [planes, list(held.index_layer_indices), widths, rows, str(info.device)]


def host_pool(pool: Any) -> Any:
    with host_memory_budget_scope(1 << 30):
        return MLATokenToKVPoolHost(
            buffer_info(pool),
            2.0,
            0,
            pool.page_size,
            "page_first_kv_split",
            pin_memory=False,
            device_capacity_tokens=pool.size,
            start_layer=pool.start_layer,
            end_layer=pool.start_layer + pool.layer_num,
            target_layer_num=pool.layer_num,
        )


def heads_info(pool: Any) -> MHABufferInfo:
    """The same of rows by head: how many heads sglang counts, not how many rows a token has."""
    if hasattr(pool, "_mha_buffer_info"):
        return pool._mha_buffer_info()
    layout = KVBufferLayout(pool.pool_traits.layout)
    k, v = tuple(pool.k_buffer), tuple(pool.v_buffer)
    return MHABufferInfo(
        buffers=KVBuffers(k=k, v=v, k_data_ptrs=None, v_data_ptrs=None, layout=layout),
        page_size=pool.page_size,
        head_num=pool.head_num,
        head_dim=pool.head_dim,
        v_head_dim=pool.v_head_dim,
        dtype=pool.store_dtype,
        device=k[0].device,
        transfer_buffers=pool.get_hicache_transfer_buffers,
    )


def heads_host_pool(pool: Any) -> Any:
    with host_memory_budget_scope(1 << 30):
        return MHATokenToKVPoolHost(
            heads_info(pool),
            2.0,
            0,
            pool.page_size,
            "page_first_direct",
            pin_memory=False,
            device_capacity_tokens=pool.size,
            start_layer=pool.start_layer,
            end_layer=pool.start_layer + pool.layer_num,
        )


def planes_of(pool: Any) -> list[torch.Tensor]:
    if hasattr(pool, "head_num"):
        return list(pool.get_hicache_transfer_buffers())
    given = native(pool)
    held = (given.k, given.v, given.index_k, given.index_scales)
    return [plane for plane in held if plane is not None]


def fill(planes: list[torch.Tensor]) -> None:
    """Every byte, alike in every pool."""
    for seed, plane in enumerate(planes):
        count = plane.numel() * plane.dtype.itemsize
        made = torch.randint(256, (count,), generator=torch.Generator().manual_seed(seed))
        plane.view(torch.uint8).view(-1).copy_(made.to(torch.uint8))


def pages(*numbers: int, size: int) -> torch.Tensor:
    """The token indices of whole pages, in order."""
    return torch.cat([torch.arange(n * size, (n + 1) * size) for n in numbers])


def described(pool: Any) -> object:
    return told(buffer_info(pool))


def heads_described(pool: Any) -> object:
    info = heads_info(pool)
    info.validate()
    rows = [info.head_num, info.head_dim, info.v_head_dim, info.page_size, str(info.dtype)]
    layers = [[list(each.shape) for each in side] for side in (info.buffers.k, info.buffers.v)]
    assert info.transfer_buffers is not None
    planes = [[list(plane.shape), str(plane.dtype)] for plane in info.transfer_buffers()]
    return [rows, info.buffers.layout.value, layers, planes, str(info.device)]


def exchanged(pool: Any) -> object:
    """Pages 1 and 3 to the host, then back as pages 4 and 2: the host's buffers, and the pool's."""
    return through(host_pool(pool), pool)


def heads_exchanged(pool: Any) -> object:
    return through(heads_host_pool(pool), pool)


def through(host: Any, pool: Any) -> object:
    size = pool.page_size
    fill(planes_of(pool))
    there = pages(7, 2, size=size)
    host.backup_from_device_all_layer(pool, there, pages(1, 3, size=size), "kernel_ascend")
    names = ("k_buffer", "v_buffer", "index_k_buffer", "index_k_scale_buffer")
    kept = [getattr(host, name) for name in names[: len(planes_of(pool))]]
    held = zip(kept, planes_of(pool), strict=True)
    digests = [digest([each[[7, 2]]]) for each, plane in held if plane.numel()]
    for layer in range(pool.layer_num):
        host.load_to_device_per_layer(pool, there, pages(4, 2, size=size), layer, "kernel_ascend")
    return [digests, host.size_per_token, bytes_of(planes_of(pool))]


for _scripts in LATENTS:
    _scripts.on("planes for a host tier")(described)
    _scripts.on("pages through sglang's host pool")(exchanged)
for _scripts in HEADS:  # the host pool takes values to be as wide as keys
    _scripts.on("pages through sglang's host pool", v_head_dim=64)(heads_exchanged)
MHA.on("planes for a host tier")(heads_described)
