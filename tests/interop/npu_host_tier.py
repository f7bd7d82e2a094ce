# pyright: basic, reportMissingImports=false
"""sglang's own host pool, unmodified, behind its NPU pools of latent rows and behind ours.

The host pool takes native planes and calls one operator, which exchanges pages between planes
`[layers, pages, ...]` and host buffers `[pages, layers, ...]`: `kvcacheio` stands in for it.
"""

from __future__ import annotations

import sys
from enum import Enum
from types import ModuleType
from typing import Any

import torch

from tests.interop.npu_indexed import DSA, DSA_PACKED
from tests.interop.npu_latent import MLA, MLA_NZ, native
from tests.interop.npu_scripts import bytes_of
from tests.interop.side_by_side import digest

__all__ = ["HOST_TIER"]


class _Direction(Enum):
    H2D = 1
    D2H = 2


def _exchange(
    *,
    device_indices: torch.Tensor,
    host_indices: torch.Tensor,
    page_size: int,
    direction: _Direction,
    **planes: torch.Tensor | None,
) -> None:
    """Pages named by their first token, of every component that both sides have."""
    firsts = device_indices[::page_size].cpu(), host_indices[::page_size].cpu()
    pages = list(zip(*((each // page_size).tolist() for each in firsts), strict=True))
    for name in ("k", "v", "index_k", "index_k_scale"):
        device, host = planes[f"device_{name}"], planes[f"host_{name}"]
        if device is None or host is None or not device.numel():
            continue
        if device.shape[0] != host.shape[1] or device[0, 0].nbytes != host[0, 0].nbytes:
            raise ValueError(f"{name}: {tuple(device.shape)} beside {tuple(host.shape)}")
        for there, here in pages:
            if direction is _Direction.D2H:
                _copy(host[here], device[:, there])
            else:
                _copy(device[:, there], host[here])


def _copy(to: torch.Tensor, of: torch.Tensor) -> None:
    to.view(torch.uint8).copy_(of.view(torch.uint8).view(to.view(torch.uint8).shape))


kvcacheio: Any = ModuleType("sgl_kernel_npu.kvcacheio")
kvcacheio.TransferDirection, kvcacheio.transfer_kv_dim_exchange = _Direction, _exchange
sys.modules.setdefault("sgl_kernel_npu", ModuleType("sgl_kernel_npu"))
sys.modules[kvcacheio.__name__] = kvcacheio

from sglang.srt.mem_cache.device_pool_info import MLABufferInfo, MLASplitBuffers  # noqa: E402
from sglang.srt.mem_cache.pool_host.base import host_memory_budget_scope  # noqa: E402
from sglang.srt.mem_cache.pool_host.mla import MLATokenToKVPoolHost  # noqa: E402

HOST_TIER = MLA, MLA_NZ, DSA, DSA_PACKED


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


def planes_of(pool: Any) -> list[torch.Tensor]:
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


def exchanged(pool: Any) -> object:
    """Pages 1 and 3 to the host, then back as pages 4 and 2: the host's buffers, and the pool's."""
    host, size = host_pool(pool), pool.page_size
    fill(planes_of(pool))
    there = pages(7, 2, size=size)
    host.backup_from_device_all_layer(pool, there, pages(1, 3, size=size), "kernel_ascend")
    kept = [host.k_buffer, host.v_buffer, host.index_k_buffer, host.index_k_scale_buffer]
    held = zip(kept, planes_of(pool), strict=False)  # those that are None come last
    digests = [digest([each[[7, 2]]]) for each, plane in held if plane.numel()]
    for layer in range(pool.layer_num):
        host.load_to_device_per_layer(pool, there, pages(4, 2, size=size), layer, "kernel_ascend")
    return [digests, host.size_per_token, bytes_of(planes_of(pool))]


for _scripts in HOST_TIER:
    _scripts.on("planes for a host tier")(described)
    _scripts.on("pages through sglang's host pool")(exchanged)
