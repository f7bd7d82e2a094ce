"""Pools under block scales on the bench: rows that are exact in them, and their very bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import torch
from torch import Tensor

from kvproto.protocols import KVPool, LeafRequest, MHALeafRequest, MLALeafRequest, ScaleLayout

from .block_codec import BlockCodec, codec_of, is_block_scaled
from .block_oracle import BlockOracle
from .kv_bench import KVBench, Side
from .latent_bench import LatentBench

__all__ = ["BlockBench", "BlockRows", "LatentBlockBench", "block_bench"]

_FOUR_BITS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


class BlockRows(KVBench):
    """Rows of numbers that the scheme holds exactly; blocks of every third row have other scales.

    Each block has the format's largest magnitude times a power of two, so that however a scale
    is rounded it is that power.
    """

    def __init__(self, request: LeafRequest, pool: KVPool, seed: int = 0) -> None:
        super().__init__(request, pool, seed)
        self.codec: BlockCodec = codec_of(request.quant_scheme)
        self._blocks = BlockOracle(
            pool, self.oracle.regions, codec=self.codec, fallback=self.fallback
        )
        self.oracle = self._blocks

    def parts(self, side: Side, layer_id: int | None = None) -> tuple[Tensor, Tensor]:
        """Element bytes and scale bytes of a layer, by slot and head."""
        return self._blocks.parts(side, self.layer_ids[0] if layer_id is None else layer_id)

    @property
    def read_dtype(self) -> torch.dtype:
        """Four bits are read dequantised, eight as they are stored."""
        return torch.bfloat16 if self.codec.four_bits else self.request.dtype

    def as_shown(self, door: Tensor, side: Side, layer_id: int) -> tuple[Tensor, Tensor]:
        """Of eight bits the elements, of four the numbers."""
        if self.codec.four_bits:
            return door.float(), self.stored(side, layer_id)
        return door.contiguous().view(torch.uint8), self.parts(side, layer_id)[0]

    def rows(self, side: Side, n: int, salt: int = 0, layer_id: int | None = None) -> Tensor:
        """`[n, heads, width]` float32, another sequence in each row and side."""
        whole = super().rows(side, n, salt, layer_id)
        exact = torch.tensor(_FOUR_BITS)[whole.long()] if self.codec.four_bits else whole
        return exact * 2.0 ** ((torch.arange(n) + salt) % 3).view(-1, 1, 1)

    def stored_elements(self, side: Side, layer_id: int | None = None) -> int:
        """Elements of the storage in a row: bytes."""
        heads, width = self.row_shape(side, layer_id)
        return heads * self.codec.row_bytes(width)

    def scale_bytes(self, layer_id: int | None = None) -> int:
        """Bytes of a token's scales in a layer."""
        shapes = [self.row_shape(side, layer_id) for side in self.sides]
        return sum(heads * width // self.codec.block for heads, width in shapes)

    def token_bytes(self, layer_id: int | None = None) -> int:
        """Bytes of a token's rows, without the scales that are exported beside them."""
        return sum(self.stored_elements(side, layer_id) for side in self.sides)

    def expect_rows(
        self, call: str, side: Side, rows: Mapping[int, Tensor], layer_id: int | None = None
    ) -> None:
        """As numbers, and the rows given byte for byte, scales included."""
        super().expect_rows(call, side, rows, layer_id)
        if rows:
            self.expect_bytes(call, side, rows, layer_id)

    def expect_bytes(
        self, call: str, side: Side, rows: Mapping[int, Tensor], layer_id: int | None = None
    ) -> None:
        """These rows are stored by slot, byte for byte as the formats are defined."""
        found = self.parts(side, layer_id)
        wanted = self.codec.encode(torch.stack([row.float() for row in rows.values()]))
        for what, got, expected in zip(
            ("scale", "element"), found[::-1], wanted[::-1], strict=True
        ):
            self.expect_same(call, got[list(rows)], expected, f"{side} {what} bytes of row")


class BlockBench(BlockRows):
    """The bench of K and V rows under block scales."""

    @property
    def scale_layout(self) -> ScaleLayout:
        """Where the scales were asked to lie."""
        return cast("MHALeafRequest", self.request).block_scale_layout


class LatentBlockBench(BlockRows, LatentBench):
    """The bench of latent rows under block scales, which are exported with the rows."""

    @property
    def kv_cache_dim(self) -> int:
        """Bytes of a stored row, its scales not counted."""
        return self.stored_elements("key")

    def token_bytes(self, layer_id: int | None = None) -> int:
        """Bytes of a token's row and of its scales."""
        return self.stored_elements("key", layer_id) + self.scale_bytes(layer_id)


def block_bench(request: object) -> type[BlockRows] | None:
    """The bench of a leaf under block scales; None for whatever keeps none."""
    if not is_block_scaled(request):
        return None
    match request:
        case MHALeafRequest():
            return BlockBench
        case MLALeafRequest():
            return LatentBlockBench
        case _:
            return None
