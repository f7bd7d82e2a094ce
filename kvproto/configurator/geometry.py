"""What a token, or a request, is to a layer: rows per head, a latent row, an index key, a state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = [
    "AttentionGeometry",
    "CompressedGeometry",
    "HeadGeometry",
    "IndexGeometry",
    "IndexKind",
    "LatentGeometry",
    "Mixer",
    "StateGeometry",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadGeometry:
    """A K row and a V row per KV head; `head_num` counts the model's heads, before any split."""

    head_num: int
    head_dim: int
    v_head_dim: int

    def heads_of_rank(self, ranks: int) -> int:
        """KV heads that each of `ranks` tensor-parallel ranks stores; never fewer than one.

        With more ranks than heads, each head is stored on several ranks; one number is a multiple
        of the other.
        """
        return max(1, self.head_num // ranks)


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentGeometry:
    """One latent row for all heads, the same on every tensor-parallel rank."""

    kv_lora_rank: int
    qk_rope_head_dim: int


AttentionGeometry: TypeAlias = HeadGeometry | LatentGeometry


IndexKind = Literal["latent", "rows", "pooled_rows"]
"""Beside what an index key is kept: a latent row, rows by head, or several tokens' such rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexGeometry:
    """A key per token (per `kpool` tokens, where that is above 1) by which tokens are chosen.

    Such a shared key is the mean of theirs, or `weighed` by scores, which takes a ring of raw
    keys and scores per request. The layers of `value_layer_ids` keep an index value beside the key.
    """

    scheme: IndexKind
    head_dim: int
    kpool: int = 1
    weighed: bool = False
    value_layer_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CompressedGeometry:
    """Rows that stand for several tokens: `ratios[i]` tokens to a row in the i-th layer.

    A ratio of 0 is a layer that keeps its window only.
    """

    head_dim: int
    qk_rope_head_dim: int
    index_head_dim: int
    ratios: tuple[int, ...]


Mixer = Literal["mamba1", "mamba2", "gated_delta", "kda", "lightning", "short_conv"]
"""What keeps the state; it decides along which axis ranks split a convolution."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateGeometry:
    """The state of one recurrent layer for one request, before any split.

    `conv_blocks` are the channels that are convolved, in blocks of which every rank has its own
    slice; `conv_window` is the inputs kept, one less than the kernel. `heads` matrices of
    `head_dim` x `state_dim` are the temporal state; 0 heads for a convolution alone.
    """

    mixer: Mixer
    conv_blocks: tuple[int, ...]
    conv_window: int
    heads: int
    head_dim: int
    state_dim: int
    groups: int = 1

    def conv_shape(self, ranks: int) -> tuple[int, int] | None:
        """The convolution's window on one of `ranks` ranks; None where nothing is convolved.

        `(channels, window)`, and for `kda` `(window, channels)`. Where the groups cannot be
        split over the ranks, each rank has the missing ones as well.
        """
        if not self.conv_window or not self.conv_blocks:
            return None
        channels = (sum(self.conv_blocks) + self._replicated_groups(ranks)) // ranks
        if self.mixer == "kda":
            return self.conv_window, channels
        return channels, self.conv_window

    def temporal_shape(self, ranks: int) -> tuple[int, int, int]:
        """`(heads, head_dim, state_dim)` of one of `ranks` ranks; no element without heads."""
        return self.heads // ranks, self.head_dim, self.state_dim

    def _replicated_groups(self, ranks: int) -> int:
        # Two projections, B and C, have `state_dim` channels for each group.
        if self.mixer not in ("mamba2", "gated_delta") or self.groups % ranks == 0:
            return 0
        return 2 * (ranks - self.groups) * self.state_dim
