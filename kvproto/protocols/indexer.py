"""Keys that choose which tokens sparse attention looks at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ._capability import Capability

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["IndexerCapable"]


@runtime_checkable
class IndexerCapable(Capability, Protocol):
    """Does the pool keep quantized index keys, with their scales, beside the attention rows?

    The rows are part of the answer: a wrapper that only forwards the doors has none, and works
    for some leaves only. Ask its leaf.
    """

    @property
    def index_head_dim(self) -> int:
        """Width of an index key, in elements."""
        ...

    @property
    def index_page_size(self) -> int:
        """Index keys per page of the index buffer: the pool's page, divided by `index_kpool`.

        Where ranks split a request's tokens, it is that of a rank's own page.
        """
        ...

    @property
    def index_kpool(self) -> int:
        """Tokens that share one index key; 1 where every token has its own."""
        ...

    @property
    def index_k_with_scale_buffer(self) -> Sequence[Tensor]:
        """One uint8 tensor per owned layer, local order: `[pages, bytes of an index page]`.

        A page holds `index_page_size` keys, then their scales: 8448 bytes for 64 fp8 keys of 128
        with a float32 each. How keys lie in it is `PoolTraits.index_scheme`, which fp8 they are the
        pool's region of them says (`DeclaresRegions`). Pages have the numbers of the KV pages, the
        reserved one included; where ranks split a request's tokens, a page of theirs has one for
        each of them. Layers that reuse the choice of an earlier layer keep their place and own no
        rows: `[0, ...]`.
        """
        ...

    def get_index_k_with_scale_buffer(self, layer_id: int) -> Tensor:
        """The index pages of a layer, as stored; an alias. `[0, ...]` for a layer without keys.

        A read door: it waits for a registered layer transfer, like those of `KVPool`.

        :raises ValueError: for a global layer id the pool does not own.
        """
        ...

    def set_index_k_scale_buffer(
        self, layer_id: int, loc: Tensor, index_k: Tensor, index_k_scale: Tensor
    ) -> None:
        """Store `[n, index_head_dim]` quantized keys and float32 scales at `[n]` index slots.

        Keys are of the fp8 that the pool stores, or their bytes as uint8: what is of another fp8 a
        pool that declares its own refuses. Scales are `[n]` or `[n, 1]`. The index slot of a token
        slot is `slot // index_kpool`, and every rank has that of every slot that ranks number
        together; key and scale of a slot land in the same page. Slots are int32 or int64, tensors
        of any strides; `n == 0` is legal. Slot 0 and below are dropped, and of duplicates one key
        wins with its own scale.

        :raises ValueError: for a global layer id the pool does not own, a layer without keys of
            its own, and keys or scales of another shape.
        :raises IndexError: on CPU, for a slot past the last; nothing is written.
        """
        ...

    def get_index_k_scale_buffer(
        self,
        layer_id: int,
        seq_len_tensor: Tensor,
        page_indices: Tensor,
        seq_len_sum: int,
        max_seq_len: int,
    ) -> tuple[Tensor, Tensor]:
        """Keys and scales of a batch, gathered, request after request; fresh, uint8 both.

        Keys are `[seq_len_sum, index_head_dim]`, scales `[seq_len_sum, 4]`, a float32 each.
        `page_indices` is `[requests, pages]` of index pages, its tail past a request's length is
        not read; `seq_len_tensor` `[requests]` counts index keys, and `seq_len_sum` and
        `max_seq_len` are its sum and maximum, known to the host. Waits like every read door.

        :raises ValueError: for a global layer id the pool does not own, and for a layer without
            keys of its own.
        """
        ...
