# pyright: basic, reportMissingImports=false
"""Calls that sglang's real pools advertise by having the method, and that raise.

Structure cannot see this, the conformance kit must. One call per capability, on a fresh pool.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from kvproto import protocols
from kvproto.protocols import supports
from tests.interop import pools

__all__ = ["refusals"]


def _slot(index: int) -> torch.Tensor:
    return torch.tensor([index])


CALLS: dict[str, Callable[[Any], object]] = {
    "KVPool": lambda pool: pool.get_value_buffer(_a_layer_of(pool)),
    "HostCopyable": lambda pool: pool.get_cpu_copy(
        _slot(1), mamba_indices=None, req_pool_index=None
    ),
    "HostMirrorable": lambda pool: pool.get_device_pool_infos(),
    "Movable": lambda pool: pool.move_kv_cache(_slot(2), _slot(1)),
    "Transferable": lambda pool: pool.get_contiguous_buf_infos(),
    "StateTransferable": lambda pool: pool.get_state_buf_infos(),
    "SizeReporting": lambda pool: pool.get_kv_size_bytes(),
    "PostCaptureBacked": lambda pool: pool.post_capture_backed_bytes,
    "KPoolTail": lambda pool: pool.get_compress_tail_buffers(0),
}


def refusals() -> dict[str, dict[str, str]]:
    """Capability -> pool that has it -> what its call raised."""
    found: dict[str, dict[str, str]] = {name: {} for name in CALLS}
    for label, pool in pools.real_pools().items():
        for name, call in CALLS.items():
            if supports(pool, getattr(protocols, name)):
                error = _raised(call, pool)
                found[name] |= {label: error} if error else {}
    return found


def _raised(call: Callable[[Any], object], pool: object) -> str:
    try:
        call(pool)
    except Exception as error:
        return f"{type(error).__name__}: {error}".partition("\n")[0].strip(": ")
    return ""


def _a_layer_of(pool: Any) -> int:
    hybrid = getattr(pool, "full_attention_layer_id_mapping", None)
    return int(next(iter(hybrid)) if hybrid else pool.start_layer)
