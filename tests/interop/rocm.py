# pyright: basic, reportMissingImports=false
"""sglang's own code for ROCm and the leaves of `kvproto.adapters.rocm`, after the same calls.

The flags by which its modules know such a device are set while a script runs; its kernels are
interpreted. As in `latent.py`, tensors are told as digests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch
from sglang.kernels.ops.kvcache import dsa_index_k_cache
from sglang.srt.mem_cache import index_key_cache, memory_pool
from sglang.srt.mem_cache.memory_pool import DSATokenToKVPool

from kvproto.adapters.rocm.platform import gfx942_on_cpu, gfx950_on_cpu
from kvproto.protocols import DSALeafRequest, MHALeafRequest, checkpoint_scale
from tests.interop import single_rank  # noqa: F401
from tests.interop.latent import _digest, _layer, _layers, _parts, _store_index, _told
from tests.interop.rounding import as_compiled

__all__ = ["observed"]

FN, FNUZ = torch.float8_e4m3fn, torch.float8_e4m3fnuz
PLATFORMS = {FN: gfx950_on_cpu(), FNUZ: gfx942_on_cpu()}
NAMES = {FN: "gfx950", FNUZ: "gfx942"}

Observe = Callable[[Any], object]


def observed() -> dict[str, object]:
    """Script -> what sglang's code shows -> and ours; an exception is told by its name."""
    found: dict[str, object] = {}
    with as_compiled():
        for dtype, name in NAMES.items():
            for what, script in SCRIPTS.items():
                with _as_on(dtype):
                    theirs = _told(script, _their_pool(dtype))
                ours = _told(script, PLATFORMS[dtype].build_leaf(_asked(dtype)))
                found[f"{name}: {what}"] = {"theirs": theirs, "ours": ours}
    found["scales and bits of a checkpoint in e4m3fn"] = _checkpoint()
    return found


def _asked(dtype: torch.dtype) -> DSALeafRequest:
    return DSALeafRequest(
        size=128,
        page_size=64,
        dtype=dtype,
        quant_scheme="fp8_scaled",
        kv_lora_rank=512,
        qk_rope_head_dim=64,
        index_head_dim=128,
        index_dtype=dtype,
        index_layout="preshuffled",
        layer_num=2,
        device="cpu",
    )


def _their_pool(dtype: torch.dtype) -> DSATokenToKVPool:
    asked = _asked(dtype).keywords()
    for own in ("index_dtype", "index_layout"):
        asked.pop(own, None)
    return DSATokenToKVPool(**asked)


@contextmanager
def _as_on(dtype: torch.dtype) -> Iterator[None]:
    """sglang's modules as they are on a device whose fp8 is that, with aiter's tiles."""
    flags = [
        (dsa_index_k_cache, "_is_fp8_fnuz", dtype == FNUZ),
        (dsa_index_k_cache, "_use_aiter_preshuffle", True),
        (index_key_cache, "_use_aiter_preshuffle", True),
        (memory_pool, "aiter_can_use_preshuffle_paged_mqa", lambda: True),
        (memory_pool, "fp8_dtype", dtype),
        (memory_pool, "_is_hip", True),
    ]
    with ExitStack() as stack:
        for module, name, value in flags:
            stack.enter_context(mock.patch.object(module, name, value))
        yield


def _keys_stored(pool: Any) -> object:
    _index(pool)
    return _digest(pool.index_k_with_scale_buffer)


def _keys_moved(pool: Any) -> object:
    _index(pool)
    for tgt, src in (([130], [70]), ([2], [1]), ([64, 65, 66], [65, 66, 67])):
        pool.move_kv_cache(torch.tensor(tgt), torch.tensor(src))
    return _digest(pool.index_k_with_scale_buffer)


def _rows_written(pool: Any) -> object:
    """In float32, whose casts `as_compiled` mends; as large as no cast has to saturate."""
    made = torch.Generator().manual_seed(2)
    loc = torch.tensor([1, 63, 64, 130])
    for i in _layers(pool):
        rows = (torch.randn(4, 1, 576, generator=made) * 40).clamp(-224, 224)
        pool.set_mla_kv_buffer(_layer(i), loc, *_parts(pool, rows))
    return _digest(buffer.view(torch.uint8) for buffer in pool.kv_buffer)


SCRIPTS: dict[str, Observe] = {
    "index keys stored in tiles": _keys_stored,
    "index keys moved in tiles": _keys_moved,
    "bare latent rows written": _rows_written,
}


def _index(pool: Any) -> None:
    """`_store_index`, with keys of the pool's own fp8."""
    plain = pool.set_index_k_scale_buffer

    def store(layer_id: int, loc: Any, keys: Any, scales: Any) -> None:
        plain(layer_id, loc, keys.view(pool.dtype), scales)

    with mock.patch.object(pool, "set_index_k_scale_buffer", store):
        _store_index(pool)


def _checkpoint() -> dict[str, object]:
    """The scale and the bytes of every finite number of e4m3fn, once loaded on gfx942."""
    from sglang.srt.layers.quantization.fp8_utils import normalize_e4m3fn_to_e4m3fnuz

    scale = torch.tensor(0.37)
    finite = torch.tensor([b for b in range(256) if b & 0x7F != 0x7F], dtype=torch.uint8)
    weight = finite.view(FN)
    rows = (weight.float() * scale).expand(1, 1, -1)
    theirs, their_scale, _ = normalize_e4m3fn_to_e4m3fnuz(weight.clone(), scale.clone())
    asked: dict[str, Any] = {"size": 1, "page_size": 1, "layer_num": 1, "device": "cpu"}
    leaf: Any = gfx942_on_cpu().build_leaf(
        MHALeafRequest(
            **asked, dtype=FNUZ, quant_scheme="fp8_scaled", head_num=1, head_dim=len(finite)
        )
    )
    own = checkpoint_scale(scale, leaf.pool_traits.fp8_variant)
    leaf.set_kv_buffer(None, torch.tensor([1]), rows, rows, own, own, layer_id_override=0)
    return {
        "theirs": [their_scale.item(), theirs.view(torch.uint8).tolist()],
        "ours": [own.item(), leaf.k_buffer[0][1, 0].tolist()],
    }
