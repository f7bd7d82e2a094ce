"""Index keys that cover several tokens, and the tokens not yet covered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ._capability import Capability

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["KPoolTail"]


@runtime_checkable
class KPoolTail(Capability, Protocol):
    """Can the pool hold the tokens of a request that do not fill an index key yet?

    The tail is a ring of raw keys and scores per request row; when `index_kpool` tokens are
    together they become one index key. A pool built without pooling keeps no rings: see
    `kpool_use_compress`.
    """

    @property
    def index_kpool_compress(self) -> bool:
        """Whether the model weighs the tokens of a group by a score, instead of averaging."""
        ...

    @property
    def kpool_use_compress(self) -> bool:
        """Whether this pool has the rings; where False the doors raise and nothing is exported."""
        ...

    def get_compress_tail_buffers(self, layer_id: int, /) -> tuple[Tensor, Tensor]:
        """The key and score rings of a layer: `[request rows, ring, index_head_dim]` each.

        :raises ValueError: for a global layer id the pool does not own.
        """
        ...

    def set_compress_tail_for_request(
        self,
        layer_id: int,
        req_pool_idx: Tensor,
        key_tail: Tensor,
        score_tail: Tensor,
        n_remain: int,
        dst_logical_start: int,
    ) -> None:
        """Put the last `n_remain` tokens of a prefill into the request's rings.

        `key_tail` and `score_tail` are `[n_remain, index_head_dim]`, `req_pool_idx` is a 0-d
        integer tensor. Token `i` goes to ring slot `(dst_logical_start + i) % ring`. `n_remain`
        of 0 leaves the rings as they are.
        """
        ...

    def kpool_decode_update_index_cache(
        self,
        layer_id: int,
        key: Tensor,
        slot_score: Tensor,
        ape: Tensor,
        block_tables: Tensor,
        req_pool_indices: Tensor,
        positions: Tensor,
        seq_lens: Tensor,
        out_cache_loc: Tensor,
        round_scale: bool = False,
    ) -> None:
        """Add one decoded token per request to its ring, and write the index keys that fill.

        `key` and `slot_score` are `[n, index_head_dim]`, `ape` is the position bias
        `[index_kpool, index_head_dim]`; the rest describes the batch, `[n]` each and
        `[n, pages]` for `block_tables`. `round_scale` rounds scales up to powers of two.
        Fixed-shape, without a host sync.
        """
        ...

    def get_compress_tail_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        """`(ptrs, lens, item_lens)` of the rings, keys of all layers, then scores; in bytes.

        An item is one request row. Layers without index rows keep their place, with an item
        length of 0. Three empty lists where there are no rings.
        """
        ...
