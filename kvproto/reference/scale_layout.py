"""Where the block scales of one side of a layer lie, and how tokens get at theirs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from kvproto.kernels import (
    ATOM,
    RowTiles,
    gather_interleaved_scales,
    gather_rows,
    store_interleaved_scales,
    store_rows,
)
from kvproto.protocols import Axis, Tile, row_major

from .row_stores import RowStore, SlotRows, TiledRows

__all__ = ["InterleavedScales", "ScalesOfTokens", "TokenScales"]


class ScalesOfTokens(Protocol):
    """The scales of a layer's keys or values: bytes, `[n, heads, blocks]` for `n` tokens."""

    @property
    def heads(self) -> int:
        """Heads of a token."""
        ...

    @property
    def blocks(self) -> int:
        """Scales of a head."""
        ...

    def shape(self, slots: int) -> tuple[int, ...]:
        """The shape of a buffer with a place for every slot."""
        ...

    def axes(self, page_size: int) -> tuple[Axis, ...]:
        """Token, head and block of a page of such a buffer."""
        ...

    def store(self, buffer: Tensor, loc: Tensor, scales: Tensor) -> None:
        """Write the scales of tokens; those of location 0 and below are dropped."""
        ...

    def gather(self, buffer: Tensor, loc: Tensor) -> Tensor:
        """The scales of tokens, fresh; those of slot 0 for 0 and below."""
        ...

    def clear_reserved(self, buffer: Tensor) -> None:
        """Zero the scales of slot 0."""
        ...

    def rows(self, buffer: Tensor) -> RowStore:
        """A buffer as rows of bytes by slot."""
        ...


@dataclass(frozen=True, slots=True)
class TokenScales:
    """A row a slot, as the elements have: `[slots, heads, blocks]`, or flat `[slots, all]`."""

    heads: int
    blocks: int
    flat: bool = False

    def shape(self, slots: int) -> tuple[int, ...]:
        return slots, *((self.heads * self.blocks,) if self.flat else (self.heads, self.blocks))

    def axes(self, page_size: int) -> tuple[Axis, ...]:
        return row_major(
            "uint8", ("token", page_size), ("head", self.heads), ("group", self.blocks)
        )

    def store(self, buffer: Tensor, loc: Tensor, scales: Tensor) -> None:
        store_rows(buffer, loc, scales.reshape(loc.shape[0], *buffer.shape[1:]))

    def gather(self, buffer: Tensor, loc: Tensor) -> Tensor:
        return gather_rows(buffer, loc).view(loc.shape[0], self.heads, self.blocks)

    def clear_reserved(self, buffer: Tensor) -> None:
        buffer[0].zero_()

    def rows(self, buffer: Tensor) -> RowStore:
        return SlotRows(buffer)


@dataclass(frozen=True, slots=True)
class InterleavedScales:
    """`[pages, heads, 32, page_size // 32, blocks]`, see `store_interleaved_scales`.

    :raises ValueError: for pages that are not whole atoms.
    """

    heads: int
    blocks: int
    page_size: int

    def __post_init__(self) -> None:
        if self.page_size % ATOM:
            raise ValueError(
                f"page_size={self.page_size}: interleaved scales lie in atoms of {ATOM} tokens; "
                "take another page size, or scale_layout='token_rows'"
            )

    def shape(self, slots: int) -> tuple[int, ...]:
        chunks = self.page_size // ATOM
        return slots // self.page_size, self.heads, ATOM, chunks, self.blocks

    def axes(self, page_size: int) -> tuple[Axis, ...]:
        chunks = page_size // ATOM
        token = Axis("token", (Tile(chunks, self.blocks), Tile(ATOM, chunks * self.blocks)))
        head = Axis("head", (Tile(self.heads, page_size * self.blocks),))
        return token, head, Axis("group", (Tile(self.blocks, 1),))

    def store(self, buffer: Tensor, loc: Tensor, scales: Tensor) -> None:
        store_interleaved_scales(buffer, loc, scales)

    def gather(self, buffer: Tensor, loc: Tensor) -> Tensor:
        return gather_interleaved_scales(buffer, loc)

    def clear_reserved(self, buffer: Tensor) -> None:
        buffer[0, :, 0, 0].zero_()

    def rows(self, buffer: Tensor) -> RowStore:
        chunks, blocks = self.page_size // ATOM, self.blocks
        token = (chunks, blocks), (ATOM, chunks * blocks)
        row = (self.heads, self.page_size * blocks), (blocks, 1)
        return TiledRows(buffer, RowTiles(self.heads * self.page_size * blocks, token, row))
