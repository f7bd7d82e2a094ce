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
    together they become one index key. Row 0 belongs to no request: what aims at it, or below,
    is dropped. A pool built without pooling keeps no rings: see `kpool_use_compress`. Where the
    pool is `HostCopyable` too, a request's rings go with the copy of its tokens.
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

        Aliases; `[0, ...]` for a layer without index keys of its own. Waits like every read door.

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
        of 0 leaves the rings as they are. Without a host sync.

        :raises ValueError: for a layer not owned or without keys, and for tails of another shape.
        :raises IndexError: on CPU, for a row past the last; nothing is written.
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
        `[index_kpool, index_head_dim]`; the rest describes the batch, `[n]` each (or more, of
        which the first `n` count). A token is at `positions` of its request and goes to ring slot
        `position % ring`; the last of a group completes it: the softmax of scores plus bias over
        the group, for each element by itself, weighs the keys into one, which is rounded to bf16,
        rotated by the normalised Hadamard matrix, rounded again and quantized by its largest
        magnitude / 448 (of at least 1e-4); `round_scale` rounds that up to a power of two. The
        key goes to the group's index slot, found in `block_tables`, `[n, columns]`: the request's
        token pages cut into pages of `index_page_size` tokens, the first of which has `index_kpool`
        times the number of the whole page. A token whose request is no row, whose location is 0 or
        below, or whose position is not below its `seq_lens`, is padding and changes nothing.
        Fixed-shape, without a host sync.

        :raises ValueError: for a layer not owned or without keys, and for keys, scores or bias of
            another shape.
        """
        ...

    def get_compress_tail_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        """`(ptrs, lens, item_lens)` of the rings, keys of all layers, then scores; in bytes.

        An item is one request row. Layers without index rows keep their place, with an item
        length of 0. Three empty lists where there are no rings.
        """
        ...
