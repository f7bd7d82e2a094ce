# pyright: basic, reportMissingImports=false
"""Rows under block scales in sglang's pools and in ours.

MXFP8 rows are stored by sglang's own kernel, through Triton's interpreter. NVFP4 rows it quantises
on an accelerator only: both pools are given the same stored bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from sglang.srt.environ import envs
from sglang.srt.layers.quantization.fp4_kv_cache_quant_method import (
    FP4MXBlock16KVCacheMethod,
    NVFP4KVCacheMethod,
)
from sglang.srt.mem_cache.memory_pool import (
    MHATokenToKVPool,
    MHATokenToKVPoolFP4,
    MHATokenToKVPoolMXFP8,
    MLATokenToKVPoolFP4,
)

from kvproto.reference import FP4Leaf, MLAFP4Leaf, MXFP8Leaf, NVFP4Leaf
from tests.interop import single_rank  # noqa: F401
from tests.interop.side_by_side import Scripts, digest, layer

__all__ = ["observed"]

E4M3, E2M1 = torch.float8_e4m3fn, torch.float4_e2m1fn_x2
STAGE = {"layer_num": 2, "start_layer": 3, "end_layer": 5, "device": "cpu"}
STAGE |= {"enable_memory_saver": False}
ROWS = STAGE | {"size": 8, "page_size": 4, "dtype": E2M1, "head_num": 2, "head_dim": 32}


def _recipe(method: Any, **options: object) -> Any:
    """The pool that sglang's configurator builds for a 4-bit recipe, moving tokens natively."""

    def make(**keywords: Any) -> Any:
        made = method(num_layers=5, device="cpu", page_size=keywords["page_size"], **options)
        with envs.SGLANG_NATIVE_MOVE_KV_CACHE.override(True):
            return MHATokenToKVPool(**keywords, quant_method=made)

    return make


EIGHT = Scripts(
    MHATokenToKVPoolMXFP8,
    MXFP8Leaf,
    **STAGE | {"size": 256, "page_size": 128, "dtype": E4M3, "head_num": 2, "head_dim": 128},
)
FOUR = Scripts(MHATokenToKVPoolFP4, FP4Leaf, **ROWS)
RECIPE = Scripts(_recipe(FP4MXBlock16KVCacheMethod), FP4Leaf, **ROWS)
NV = Scripts(_recipe(NVFP4KVCacheMethod, native_scale_layout=False), NVFP4Leaf, **ROWS)
LATENT = Scripts(
    MLATokenToKVPoolFP4,
    MLAFP4Leaf,
    **STAGE
    | {"size": 8, "page_size": 4, "dtype": E2M1, "kv_lora_rank": 32, "qk_rope_head_dim": 16},
)
FAMILIES = {
    "mxfp8": EIGHT,
    "fp4 class": FOUR,
    "fp4 recipe": RECIPE,
    "nvfp4 recipe": NV,
    "latent fp4": LATENT,
}


def observed() -> dict[str, object]:
    """Family and script -> what sglang's pool shows -> and ours."""
    return {
        f"{family}: {name}": told
        for family, scripts in FAMILIES.items()
        for name, told in scripts.observed().items()
    }


def _rows(pool: Any, n: int, seed: int = 0) -> torch.Tensor:
    """Float32, where next to nothing lies halfway; rows of bfloat16 have scripts of their own."""
    width = (
        pool.head_dim if hasattr(pool, "head_dim") else pool.kv_lora_rank + pool.qk_rope_head_dim
    )
    heads = getattr(pool, "head_num", 1)
    made = torch.Generator().manual_seed(seed)
    return torch.randn(n, heads, width, generator=made) * 2.0 ** torch.randint(
        -6, 7, (n, 1, 1), generator=made
    )


def _write(pool: Any, loc: list[int], layer_id: int = 4, seed: int = 0) -> None:
    k, v = _rows(pool, len(loc), seed), _rows(pool, len(loc), seed + 1)
    if isinstance(pool, MHATokenToKVPoolMXFP8 | MXFP8Leaf):
        k, v = k.to(torch.bfloat16), v.to(torch.bfloat16)
    pool.set_kv_buffer(layer(layer_id), torch.tensor(loc), k, v)


def _buffers(pool: Any) -> list[torch.Tensor]:
    if hasattr(pool, "kv_buffer"):
        return [*pool.kv_buffer, *pool.kv_scale_buffer]
    return [*pool.k_buffer, *pool.v_buffer, *pool.k_scale_buffer, *pool.v_scale_buffer]


def _held(pool: Any) -> list[str]:
    return digest(_buffers(pool))


def _filled(pool: Any) -> Any:
    for layer_id in (3, 4):
        _write(pool, list(range(1, 12)), layer_id, seed=layer_id)
    return pool


def _stored(pool: Any) -> object:
    return _held(_filled(pool))


def _stored_in_bf16(pool: Any) -> object:
    """Bytes of what models write, but for the two differences that are recorded.

    The last bit of the mantissa is set, so that nothing lies halfway between two numbers; its first
    is not, so that no block's largest magnitude is just above 6 times a power of two.
    """
    for seed in range(8):
        bits = _rows(pool, 11, seed).to(torch.bfloat16).view(torch.int16)
        rows = (bits & ~0x40 | 1).view(torch.bfloat16)
        pool.set_kv_buffer(layer(3 + seed % 2), torch.arange(1, 12), rows, rows)
    return _held(pool)


def _just_above_a_scale(pool: Any) -> object:
    """A block of 388 and 40, where 6 * 64 is 384: what they are read as, and its stored scale."""
    rows = torch.zeros_like(_rows(pool, 1), dtype=torch.bfloat16)
    rows[0, 0, :2] = torch.tensor([388.0, 40.0])
    pool.set_kv_buffer(layer(4), torch.tensor([1]), rows, rows)
    scale = _buffers(pool)[-1][1].view(torch.uint8).flatten()[0]
    return [*pool.get_key_buffer(4)[1, 0, :2].tolist(), scale.item()]


def _read(pool: Any) -> object:
    return digest(_filled(pool).get_kv_buffer(4))


def _moved(pool: Any) -> object:
    _filled(pool).move_kv_cache(torch.tensor([5, 6, 9]), torch.tensor([6, 7, 5]))
    return _held(pool)


def _moved_row(pool: Any) -> object:
    """Whether slot 5 reads as slot 6 did, whose scales are others."""
    _write(pool, [5, 6])
    before = pool.get_key_buffer(4)[6].float()
    pool.move_kv_cache(torch.tensor([5]), torch.tensor([6]))
    return torch.equal(pool.get_key_buffer(4)[5].float(), before)


def _moved_to_the_reserved_slot(pool: Any) -> object:
    _filled(pool).move_kv_cache(torch.tensor([0]), torch.tensor([6]))
    return [bool(buffer[0].view(torch.uint8).any()) for buffer in _buffers(pool)[:4]]


def _restored(pool: Any) -> object:
    """Whether rows 1 and 2, copied out and brought back to 7 and 8, read as they did."""
    _write(pool, [1, 2])
    wanted = pool.get_key_buffer(4)[[1, 2]].clone()
    copy = pool.get_cpu_copy(torch.tensor([1, 2]), mamba_indices=None, req_pool_index=0)
    _write(pool, [7, 8], seed=40)
    pool.load_cpu_copy(copy, torch.tensor([7, 8]), mamba_indices=None, req_pool_index=0)
    return torch.equal(pool.get_key_buffer(4)[[7, 8]], wanted)


def _restored_bytes(pool: Any) -> object:
    copy = _filled(pool).get_cpu_copy(torch.tensor([2, 1]))
    pool.load_cpu_copy(copy, torch.tensor([7, 8]))
    return _held(pool)


def _stored_at_all(pool: Any) -> object:
    _write(pool, [3])
    return bool(pool.get_key_buffer(4)[3].float().any())


def _reserved(pool: Any) -> object:
    _write(pool, [0, 3])
    return [bool(buffer[0].any()) for buffer in _buffers(pool)]


def _nowhere(pool: Any) -> object:
    _write(pool, [-1, 3])
    return [bool(buffer[-1].any()) for buffer in _buffers(pool)]


def _foreign(pool: Any) -> object:
    return pool.get_key_buffer(2).shape[0]


def _sizes(pool: Any) -> object:
    told = pool.get_kv_size_bytes()
    return [int(part) for part in told] if isinstance(told, tuple) else int(told)


def _descriptors(pool: Any) -> object:
    return pool.get_contiguous_buf_infos()[1:]


def _scale_descriptors(pool: Any) -> object:
    return pool.get_kv_scale_buf_infos()[1:]


def _shapes(pool: Any) -> object:
    return [list(buffer.shape) for buffer in _buffers(pool)]


def _scale_types(pool: Any) -> object:
    return [str(buffer.dtype) for buffer in _buffers(pool)[-2:]]


def _store_type(pool: Any) -> object:
    return [str(pool.store_dtype)]


def _value_shape(pool: Any) -> object:
    return list(pool.v_buffer[0].shape)


def _rounded(pool: Any) -> object:
    """Halfway between neighbours: 0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5, beside the largest."""
    return _halves_read(pool, torch.float32)


def _rounded_in_bf16(pool: Any) -> object:
    """The same numbers, of which rows of bfloat16 have many."""
    return _halves_read(pool, torch.bfloat16)


def _halves_read(pool: Any, dtype: torch.dtype) -> object:
    halves = torch.tensor([6.0, 0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0])
    rows = torch.zeros_like(_rows(pool, 1), dtype=dtype)
    rows[0, 0, :8] = halves
    pool.set_kv_buffer(layer(4), torch.tensor([1]), rows, rows)
    return pool.get_key_buffer(4)[1, 0, :8].tolist()


def _not_a_number(pool: Any) -> object:
    rows = torch.ones_like(_rows(pool, 1))
    rows[0, 0, 3] = float("nan")
    pool.set_kv_buffer(layer(4), torch.tensor([1]), rows, rows)
    return [str(x) for x in pool.get_key_buffer(4)[1, 0, 2:4].tolist()]


def _waits(pool: Any) -> object:
    waited: list[int] = []
    pool.register_layer_transfer_counter(_Counter(waited))
    pool.get_kv_scale_buffer(4)
    return waited


class _Counter:
    def __init__(self, waited: list[int]) -> None:
        self.waited = waited

    def wait_until(self, threshold: int) -> None:
        self.waited.append(threshold)


def _on(families: Iterable[Scripts], name: str, script: Any, **changes: object) -> None:
    for scripts in families:
        scripts.on(name, **changes)(script)


MHA = (EIGHT, FOUR, RECIPE)
_on((*MHA, LATENT), "rows quantised and stored", _stored)
_on((*MHA, LATENT), "the reserved slot", _reserved)
_on((EIGHT,), "rows of 64", _stored, head_dim=64)
_on((EIGHT,), "rows in pages of 64", _stored_at_all, page_size=64)
_on((FOUR, RECIPE, LATENT), "a row for nowhere", _nowhere)
_on((FOUR, RECIPE, LATENT), "halfway between two numbers", _rounded)
_on((FOUR, RECIPE, LATENT), "halfway, in bfloat16", _rounded_in_bf16)
_on((FOUR, RECIPE, LATENT), "just above a scale, in bfloat16", _just_above_a_scale)
_on((FOUR, RECIPE, LATENT), "other rows in bfloat16", _stored_in_bf16)
_on((FOUR, RECIPE, LATENT), "a block with a NaN", _not_a_number)
_on(MHA, "both read doors", _read)
_on((EIGHT, RECIPE), "a move", _moved)
_on((FOUR, LATENT), "a move", _moved_row)
_on((EIGHT, RECIPE), "a move to the reserved slot", _moved_to_the_reserved_slot)
_on((EIGHT,), "a move of rows of 64", _moved_row, head_dim=64)
_on((EIGHT,), "a host copy, byte for byte", _restored_bytes)
_on((FOUR, RECIPE, LATENT), "a host copy", _restored)
_on((*MHA, NV, LATENT), "sizes", _sizes)
_on((*MHA, NV, LATENT), "shapes", _shapes)
_on((*MHA, NV, LATENT), "the type of scales", _scale_types)
_on((*MHA, NV, LATENT), "the type of the storage", _store_type)
_on((*MHA, NV, LATENT), "descriptors", _descriptors)
_on((*MHA, NV), "descriptors of scales", _scale_descriptors)
_on((*MHA, LATENT), "the layer before the stage", _foreign)
_on((EIGHT,), "waiting for scales", _waits)
_on((FOUR,), "values of another width", _value_shape, v_head_dim=16)


@EIGHT.on("rows that come with scales")
def _with_scales(pool: Any) -> object:
    rows = _rows(pool, 1).to(E4M3)
    scales = torch.full((1, 2, 4), 127, dtype=torch.uint8).view(torch.float8_e8m0fnu)
    pool.set_kv_buffer(layer(4), torch.tensor([3]), rows, rows, scales, scales)
    return bool(pool.k_scale_buffer[1].view(torch.uint8).any())


@EIGHT.on("accepted drafts")
def _drafts(pool: Any) -> object:
    rows = _rows(pool, 2).to(torch.bfloat16)
    pool.set_kv_buffer_prefix_valid(layer(4), torch.tensor([[3, 4]]), torch.tensor([1]), rows, rows)
    return bool(pool.k_buffer[1][3].view(torch.uint8).any())


@FOUR.on("rows given with a scale")
def _scaled(pool: Any) -> object:
    rows, other = _rows(pool, 1), _rows(pool, 1, 1)
    before = rows.clone()
    pool.set_kv_buffer(layer(4), torch.tensor([3]), rows, other, 2.0, 2.0)
    return torch.equal(rows, before)


@FOUR.on("rows stored with a scale")
def _stored_with_a_scale(pool: Any) -> object:
    rows, other = _rows(pool, 1), _rows(pool, 1, 1)
    pool.set_kv_buffer(layer(4), torch.tensor([3]), rows, other, 2.0, 4.0)
    return _held(pool)


@RECIPE.on("rows stored with a scale")
def _recipe_with_a_scale(pool: Any) -> object:
    rows = torch.full_like(_rows(pool, 1), 6.0)
    pool.set_kv_buffer(layer(4), torch.tensor([3]), rows, rows, 2.0, 2.0)
    return pool.get_key_buffer(4)[3, 0, 0].item()


@NV.on("a move of the same bytes")
def _same_bytes_moved(pool: Any) -> object:
    made = torch.Generator().manual_seed(9)
    for buffer in _buffers(pool):
        bytes_ = buffer.view(torch.uint8)
        bytes_.copy_(torch.randint(0, 120, bytes_.shape, generator=made))
        bytes_[0] = 0
    pool.move_kv_cache(torch.tensor([5, 6, 9]), torch.tensor([6, 7, 5]))
    return _held(pool)


@NV.on("the raw door and the workspace")
def _raw(pool: Any) -> object:
    shown = (*pool.get_raw_kv_buffer(4), *pool.get_dequant_workspace())
    return [[list(b.shape), str(b.dtype)] for b in shown]


def _parts(pool: Any, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return rows[..., : pool.kv_lora_rank], rows[..., pool.kv_lora_rank :]


@LATENT.on("rows stored whole, and in two parts")
def _in_parts(pool: Any) -> object:
    """sglang's writer of two parts needs a compiler: ours is compared with its writer of one."""
    if isinstance(pool, MLATokenToKVPoolFP4):
        return _stored(pool)
    for layer_id in (3, 4):
        rows = _rows(pool, 11, layer_id)
        pool.set_mla_kv_buffer(layer(layer_id), torch.arange(1, 12), *_parts(pool, rows))
    return _held(pool)


@LATENT.on("the key door")
def _keys(pool: Any) -> object:
    return digest([_filled(pool).get_key_buffer(4)])


@LATENT.on("the value door")
def _values(pool: Any) -> object:
    _write(pool, [1])
    return list(pool.get_value_buffer(4).shape)
