"""Are fp8 rows stored as what they are? Some releases of the vendor's stack stored zeros.

Rows of a kind are written and read by kernels of their own, of which one may be right where another
is not: what is read back is a row of the kind that is about to be built.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import cycle
from typing import Literal, TypeAlias, assert_never

import torch
from torch import Tensor

from kvproto.kernels import packed_latent_width, quantise_index_keys
from kvproto.protocols import DSALeafRequest, LeafRequest, MLALeafRequest, SparseIndexLeafRequest
from kvproto.reference import DSALeaf, MHALeaf, MLALeaf

from ..vendor_packages import first_line

__all__ = ["RowsOfFp8", "fp8_fault", "rows_of_fp8"]

RowsOfFp8: TypeAlias = Literal["heads", "latents", "packed latents", "index keys"]
"""Rows that are stored in fp8, by the kernels that store them."""

_Found: TypeAlias = tuple[Tensor, Tensor]
"""Elements as stored, and numbers as read: as many of each."""

_FP8 = torch.float8_e4m3fn
_BYTES = {
    0.0: 0x00,
    1.0: 0x38,
    -1.5: 0xBC,
    448.0: 0x7E,
    -448.0: 0xFE,
    0.001953125: 0x01,
    -0.013671875: 0x87,
    240.0: 0x77,
}
"""Numbers of e4m3fn and their bytes, from the format's definition: the ends, and in between.

The largest is the format's own, so that a scale made of them is 1, and every number is exact.
"""
_RANK = 128
_LACKING = "not implemented"


@dataclass(frozen=True, slots=True)
class _Layer:
    layer_id: int = 0


def rows_of_fp8(request: LeafRequest) -> tuple[RowsOfFp8, ...]:
    """The rows of a leaf that are stored in fp8: rows of heads, a sparse index's among them."""
    match request:
        case DSALeafRequest():
            keys: tuple[RowsOfFp8, ...] = ("index keys",) if request.has_index_scales else ()
            return (*_latents(request), *keys)
        case MLALeafRequest():
            return _latents(request)
        case SparseIndexLeafRequest():
            return ("heads",) if _FP8 in (request.dtype, request.stored_index_dtype) else ()
        case _:
            return ("heads",) if request.dtype == _FP8 else ()


def _latents(request: MLALeafRequest | DSALeafRequest) -> tuple[RowsOfFp8, ...]:
    if request.dtype != _FP8:
        return ()
    return ("packed latents",) if request.quant_scheme == "dsa_fp8_packed" else ("latents",)


def fp8_fault(device: str | torch.device, rows: RowsOfFp8) -> str:
    """How fp8 rows written on a device differ from what they are; "" where they do not.

    Writes a row of that kind through a leaf's own door and waits for it to come back: for whoever
    builds, not for whoever serves. On a device without memory nothing can be read, and nothing is
    wrong. An operator that the device lacks is a fault. Any other error, such as of memory that
    others hold at the moment, says nothing of the rows and is raised as it is.
    """
    if torch.device(device).type == "meta":
        return ""
    try:
        stored, read = _read_back(torch.device(device), rows)
    except RuntimeError as error:
        if not _is_lacking(error):
            raise
        return f"{rows} in fp8 cannot be stored on {device}: {first_line(error)}"
    return _difference(rows, stored, read)


def _is_lacking(error: RuntimeError) -> bool:
    return isinstance(error, NotImplementedError) or _LACKING in str(error)


def _read_back(device: torch.device, rows: RowsOfFp8) -> _Found:
    match rows:
        case "heads":
            return _heads(device)
        case "latents":
            return _plain_latents(device)
        case "packed latents":
            return _packed_latents(device)
        case "index keys":
            return _index_keys(device)
        case _:
            assert_never(rows)


def _numbers(device: torch.device, width: int) -> Tensor:
    """`[1, width]` in bfloat16: the numbers, again and again."""
    again = [number for number, _ in zip(cycle(_BYTES), range(width), strict=False)]
    return torch.tensor([again], dtype=torch.bfloat16, device=device)


def _slots(device: torch.device, *slots: int) -> Tensor:
    return torch.tensor(slots, dtype=torch.int64, device=device)


def _heads(device: torch.device) -> _Found:
    width = len(_BYTES)
    leaf = MHALeaf(
        size=1,
        page_size=1,
        dtype=_FP8,
        head_num=1,
        head_dim=width,
        layer_num=1,
        device=device,
    )
    row = _numbers(device, width).view(1, 1, -1)
    leaf.set_kv_buffer(None, _slots(device, 1), row, row, layer_id_override=0)
    stored = torch.cat([leaf.get_key_buffer(0)[1, 0], leaf.get_value_buffer(0)[1, 0]])
    return stored, stored.to(torch.float32)


def _plain_latents(device: torch.device) -> _Found:
    """By both doors: slot 1 as a row, slot 2 in its two parts."""
    width = len(_BYTES)
    leaf = MLALeaf(
        size=2,
        page_size=1,
        dtype=_FP8,
        kv_lora_rank=width,
        qk_rope_head_dim=width,
        layer_num=1,
        device=device,
    )
    row, part = (_numbers(device, n).unsqueeze(1) for n in (2 * width, width))
    leaf.set_kv_buffer(None, _slots(device, 1), row, None, layer_id_override=0)
    leaf.set_mla_kv_buffer(_Layer(), _slots(device, 2), part, part)
    parts = leaf.get_mla_kv_buffer(_Layer(), _slots(device, 1, 2), torch.float32)
    read = torch.cat(parts, dim=-1)
    return leaf.get_key_buffer(0)[1:].flatten(), read.flatten()


def _packed_latents(device: torch.device) -> _Found:
    """The latent alone: rotated elements beside it are no fp8."""
    leaf = _indexed(device, packed_latent_width(_RANK, _RANK))
    part = _numbers(device, _RANK).unsqueeze(1)
    leaf.set_mla_kv_buffer(_Layer(), _slots(device, 1), part, part)
    stored = leaf.kv_buffer[0].view(torch.uint8)[1].flatten()[:_RANK]
    latent, _ = leaf.get_mla_kv_buffer(_Layer(), _slots(device, 1), torch.float32)
    return stored, latent.flatten()


def _index_keys(device: torch.device) -> _Found:
    """Quantised as whoever has no quantised ones does, stored, and gathered with their scales."""
    leaf = _indexed(device, None)
    keys, scales = quantise_index_keys(_numbers(device, _RANK), round_scale=False)
    leaf.set_index_k_scale_buffer(0, _slots(device, 1), keys, scales.view(torch.float32))
    one, page = _slots(device, 1).to(torch.int32), _slots(device, 1).view(1, 1).to(torch.int32)
    stored, scale = leaf.get_index_k_scale_buffer(0, one, page, 1, 1)
    read = stored.view(_FP8).to(torch.float32) * scale.view(torch.float32).view(1, 1)
    return stored.flatten(), read.flatten()


def _indexed(device: torch.device, row_bytes: int | None) -> DSALeaf:
    return DSALeaf(
        size=1,
        page_size=1,
        kv_lora_rank=_RANK,
        dtype=_FP8,
        qk_rope_head_dim=_RANK,
        layer_num=1,
        device=device,
        index_head_dim=_RANK,
        kv_cache_dim=row_bytes,
    )


def _difference(rows: RowsOfFp8, stored: Tensor, read: Tensor) -> str:
    found = [int(byte) for byte in stored.view(torch.uint8).to("cpu")]
    got = [float(number) for number in read.to("cpu")]
    for (number, byte), here, value in zip(cycle(_BYTES.items()), found, got, strict=False):
        if here != byte:
            return f"{rows}: stored {number} as {here:#04x}, which is {byte:#04x} in float8_e4m3fn"
        if value != number:
            return f"{rows}: read {byte:#04x} as {value}, which is {number} in float8_e4m3fn"
    return ""
