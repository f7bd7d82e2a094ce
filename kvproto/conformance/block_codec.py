"""Block-scaled rows by the formats' definitions, in float64: what bytes a pool has to store.

Nothing here is shared with a pool: numbers are looked up in the list of all a format has.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kvproto.protocols import BLOCK_SCALED, QuantScheme

__all__ = ["BlockCodec", "codec_of", "is_block_scaled"]


@dataclass(frozen=True, slots=True)
class _Format:
    """The magnitudes of a format by code, ascending; the sign is the bit above the codes."""

    values: tuple[float, ...]
    sign: int

    def nearest(self, exact: Tensor) -> Tensor:
        """The code of the nearest magnitude, of two equally near the even one, with its sign."""
        table = torch.tensor(self.values, dtype=torch.float64)
        middles = (table[1:] + table[:-1]) / 2
        size = exact.abs().clamp(max=self.values[-1])
        code = torch.searchsorted(middles, size)
        tie = middles[code.clamp(max=len(middles) - 1)] == size
        code = code + (tie & (code % 2 == 1)).long()
        return code + self.sign * exact.signbit().long()

    def meaning(self, codes: Tensor) -> Tensor:
        """What codes of this format stand for; those without a magnitude are NaN."""
        table = torch.full((self.sign,), torch.nan, dtype=torch.float64)
        table[: len(self.values)] = torch.tensor(self.values, dtype=torch.float64)
        size = table[codes.long() % self.sign]
        return torch.where(codes.long() >= self.sign, -size, size)


def _float_format(exponent_bits: int, mantissa_bits: int, bias: int, count: int) -> _Format:
    steps = 1 << mantissa_bits
    values = [
        (mantissa / steps) * 2.0 ** (1 - bias)
        if exponent == 0
        else (1 + mantissa / steps) * 2.0 ** (exponent - bias)
        for exponent in range(1 << exponent_bits)
        for mantissa in range(steps)
    ]
    return _Format(tuple(values[:count]), 1 << (exponent_bits + mantissa_bits))


_E2M1 = _float_format(2, 1, 1, 8)
_E4M3 = _float_format(4, 3, 7, 127)  # the last code is NaN
_E8M0 = tuple(2.0 ** (code - 127) for code in range(255))


@dataclass(frozen=True, slots=True)
class BlockCodec:
    """Rows `[..., width]` <-> element bytes and scale bytes `[..., width // block]`."""

    scheme: QuantScheme
    block: int
    four_bits: bool

    def row_bytes(self, width: int) -> int:
        """Bytes of so many elements, without their scales."""
        return width // 2 if self.four_bits else width

    def encode(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The bytes to store for rows without NaN, both uint8."""
        blocks = rows.double().reshape(*rows.shape[:-1], -1, self.block)
        scales = self._scale_codes(blocks.abs().amax(-1))
        return self.elements(rows, scales), scales.to(torch.uint8)

    def elements(self, rows: Tensor, scales: Tensor) -> Tensor:
        """The element bytes of rows under these scale bytes."""
        blocks = rows.double().reshape(*rows.shape[:-1], -1, self.block)
        by = self.scale_meaning(scales).unsqueeze(-1)
        exact = torch.where(by == 0, blocks.sign() * 0.0, blocks / by).flatten(-2)
        if not self.four_bits:
            return _E4M3.nearest(exact).to(torch.uint8)
        codes = _E2M1.nearest(exact)
        return (codes[..., 0::2] + 16 * codes[..., 1::2]).to(torch.uint8)

    def decode(self, elements: Tensor, scales: Tensor) -> Tensor:
        """What the bytes stand for, float64."""
        codes = elements.long()
        if self.four_bits:
            codes = torch.stack([codes % 16, codes // 16], dim=-1).flatten(-2)
        values = (_E2M1 if self.four_bits else _E4M3).meaning(codes)
        blocks = values.reshape(*values.shape[:-1], -1, self.block)
        return (blocks * self.scale_meaning(scales).unsqueeze(-1)).flatten(-2)

    def scale_meaning(self, scales: Tensor) -> Tensor:
        """What scale bytes stand for, float64."""
        if self.scheme == "nvfp4":
            return _E4M3.meaning(scales)
        table = torch.tensor((*_E8M0, torch.nan), dtype=torch.float64)
        return table[scales.long()]

    def _scale_codes(self, amax: Tensor) -> Tensor:
        match self.scheme:
            case "mxfp8":
                ratio = amax.clamp(min=1e-30) / _E4M3.values[-1]
            case "fp4_mx16":
                ratio = (amax / _E2M1.values[-1]).clamp(min=1e-10)
            case _:
                return _E4M3.nearest(amax / _E2M1.values[-1])
        powers = torch.tensor(_E8M0, dtype=torch.float64)
        return torch.searchsorted(powers, ratio).clamp(max=254)


def is_block_scaled(request: object, /) -> bool:
    """For laws about rows under block scales that lie beside them."""
    return getattr(request, "quant_scheme", "none") in BLOCK_SCALED


def codec_of(scheme: QuantScheme) -> BlockCodec:
    """The codec of a block-scaled scheme."""
    wide = scheme == "mxfp8"
    return BlockCodec(scheme, 32 if wide else 16, four_bits=not wide)
