"""Are fp8 rows stored as what they are? Some releases of the vendor's stack stored zeros."""

from __future__ import annotations

import torch

from kvproto.reference import MHALeaf

__all__ = ["fp8_fault"]

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
"""Numbers of e4m3fn and their bytes, from the format's definition: the ends, and in between."""


def fp8_fault(device: str | torch.device) -> str:
    """How fp8 rows written on a device differ from what they are; "" where they do not.

    Writes one row through a leaf's own door and waits for it to come back: for whoever builds, not
    for whoever serves. On a device without memory nothing can be read, and nothing is wrong.
    """
    if torch.device(device).type == "meta":
        return ""
    try:
        return _difference(*_read_back(device))
    except RuntimeError as error:  # an operator that the device lacks
        return f"fp8 rows cannot be stored on {device}: {str(error).strip().partition(chr(10))[0]}"


def _read_back(device: str | torch.device) -> tuple[list[int], list[float]]:
    """The bytes that those numbers are stored as, and the numbers that they are read as."""
    leaf = MHALeaf(
        size=1,
        page_size=1,
        dtype=torch.float8_e4m3fn,
        head_num=1,
        head_dim=len(_BYTES),
        layer_num=1,
        device=device,
    )
    row = torch.tensor(list(_BYTES), dtype=torch.bfloat16, device=device).view(1, 1, -1)
    loc = torch.ones(1, dtype=torch.int64, device=device)
    leaf.set_kv_buffer(None, loc, row, row, layer_id_override=0)
    keys = leaf.get_key_buffer(0)[1, 0]
    stored, read = keys.view(torch.uint8).to("cpu"), keys.to(torch.float32).to("cpu")
    return [int(byte) for byte in stored], [float(number) for number in read]


def _difference(stored: list[int], read: list[float]) -> str:
    for (number, byte), found, got in zip(_BYTES.items(), stored, read, strict=True):
        if found != byte:
            return f"stored {number} as {found:#04x}, which is {byte:#04x} in float8_e4m3fn"
        if got != number:
            return f"read {byte:#04x} as {got}, which is {number} in float8_e4m3fn"
    return ""
