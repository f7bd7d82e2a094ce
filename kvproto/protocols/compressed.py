"""Attention over a window plus one compressed key per group of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ._capability import Capability

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["CompressStates", "DSV4Compressed"]


@runtime_checkable
class CompressStates(Capability, Protocol):
    """Does the object hold the tokens of a layer that are not compressed yet?"""

    @property
    def ratio(self) -> int:
        """Tokens per compressed key."""
        ...

    @property
    def ring_size(self) -> int:
        """Rows kept per page of the window, or per request."""
        ...

    @property
    def kv_score_buffer(self) -> object:
        """The rows, keys and scores side by side."""
        ...


@runtime_checkable
class DSV4Compressed(Capability, Protocol):
    """Does the pool serve a byte-packed window, and keys compressed by a ratio of each layer's own?

    The doors of `KVPool` do not apply: a token is bytes of two caches. Layer ids are global.
    """

    @property
    def compression_ratios(self) -> Sequence[int]:
        """Tokens per compressed key, for every layer of the model; 0 for window-only layers."""
        ...

    @property
    def present_ratios(self) -> Sequence[int]:
        """The ratios that occur on this stage, ascending, each once, without 0."""
        ...

    @property
    def layer_mapping(self) -> Sequence[tuple[int, int | None, object | None] | None]:
        """Per global layer: (ratio, index in the pool of that ratio, that pool); None elsewhere."""
        ...

    @property
    def uniform_fp8(self) -> bool:
        """Whether a token is plain fp8 elements, without packed scales and rope."""
        ...

    @property
    def swa_page_size(self) -> int:
        """Window tokens per page of the window cache."""
        ...

    def get_swa_key_buffer_radix(self, layer_id: int, /) -> Tensor:
        """The window cache of a layer: `[pages, bytes of a page]`."""
        ...

    def get_extra_key_buffer(self, layer_id: int, /) -> Tensor | None:
        """The compressed keys of a layer: `[pages, bytes of a page]`; None where it has no cache.

        :raises ValueError: for a window-only layer.
        """
        ...

    def get_extra_key_page_size(self, layer_id: int, /) -> int:
        """Compressed keys per page of `get_extra_key_buffer`."""
        ...

    def get_extra_key_layout(self, layer_id: int, /) -> object:
        """The byte layout of a compressed key: a member of the model's own enumeration."""
        ...

    def get_attention_compress_states(self, layer_id: int, /) -> CompressStates:
        """Tokens waiting to become compressed keys of the layer.

        :raises ValueError: for a layer that compresses nothing.
        """
        ...

    def get_indexer_compress_states(self, layer_id: int, /) -> CompressStates:
        """Tokens waiting to become index keys of the layer.

        :raises ValueError: for a layer without an indexer.
        """
        ...

    def pd_kv_layout(self) -> str:
        """Names the byte layouts of all caches; peers transfer only where the strings are equal."""
        ...
