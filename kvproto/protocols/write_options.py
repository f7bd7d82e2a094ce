"""What a write door takes beyond rows and locations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from .leaf import KVPool

if TYPE_CHECKING:
    from torch import Tensor

    from .layer import AttentionLayer, WriteLocation

__all__ = ["DCPMaskedWrite", "LayerOverrideWrite", "PrefixValidCommit", "ScaledWrite"]


@runtime_checkable
class ScaledWrite(KVPool, Protocol):
    """Does the write door take the scales that turn keys and values into stored elements?

    Pools without it are called with four arguments: a fifth would be another option there.
    """

    def set_kv_buffer(
        self,
        layer: AttentionLayer,
        loc_info: Tensor | WriteLocation,
        cache_k: Tensor,
        cache_v: Tensor,
        /,
        k_scale: float | Tensor | None = None,
        v_scale: float | Tensor | None = None,
    ) -> None:
        """As `KVPool.set_kv_buffer`, storing `cache_k / k_scale` and `cache_v / v_scale`.

        Readers multiply by the same scales, which are those of the pool's own fp8 variant: one that
        a checkpoint states for another goes through `checkpoint_scale` first. A float, a 0-d and a
        1-element tensor mean the same; None means 1.0, each side by itself. On `mxfp8` pools the
        scales are the rows' own, UE8M0 `[n, heads, head_dim / 32]`, and None means that the pool
        computes them; rows that are e4m3fn already come with theirs. On `nvfp4` pools they are
        those under which block scales are kept, and None means the layer's own. Unquantized pools
        ignore scales. `cache_k` and `cache_v` are not modified.

        :raises ValueError: for a scale that is zero, negative or not finite, on a quantized pool;
            on an `mxfp8` pool for scales of another shape, or rows without the scales they need.
        """
        ...


@runtime_checkable
class LayerOverrideWrite(KVPool, Protocol):
    """Can a caller name the layer that a write goes to, whatever the layer object says?

    For composites, whose leaves count layers in ids of their own.
    """

    def set_kv_buffer(
        self,
        layer: AttentionLayer | None,
        loc_info: Tensor | WriteLocation,
        cache_k: Tensor,
        cache_v: Tensor,
        /,
        *,
        layer_id_override: int | None = None,
    ) -> None:
        """As `KVPool.set_kv_buffer`, for layer `layer_id_override` where that is not None.

        The override is an id of the called pool's own range, 0 included. `layer` may be None
        beside it, and is then not looked at.

        :raises ValueError: for an override that the pool does not own.
        """
        ...


@runtime_checkable
class DCPMaskedWrite(KVPool, Protocol):
    """Can a rank of decode context parallelism store only the rows that are its own?"""

    def set_kv_buffer(
        self,
        layer: AttentionLayer,
        loc_info: Tensor | WriteLocation,
        cache_k: Tensor,
        cache_v: Tensor,
        /,
        *,
        dcp_kv_mask: Tensor | None = None,
    ) -> None:
        """As `KVPool.set_kv_buffer`, dropping every row whose mask is False.

        `dcp_kv_mask` is bool `[n]`, None stores all rows. Fixed-shape: the mask may not
        change what is launched.
        """
        ...


@runtime_checkable
class PrefixValidCommit(KVPool, Protocol):
    """Can the pool store a batch of drafts of which only a prefix of each row was accepted?

    Speculative decoding verifies a fixed number of draft tokens per request and learns on the
    device how many to keep.
    """

    def set_kv_buffer_prefix_valid(
        self,
        layer: AttentionLayer,
        loc_2d: Tensor,
        commit_lens: Tensor,
        cache_k: Tensor,
        cache_v: Tensor,
        /,
        k_scale: float | Tensor | None = None,
        v_scale: float | Tensor | None = None,
    ) -> None:
        """Store the first `commit_lens[b]` tokens of request `b`; the others change nothing.

        `loc_2d` is `[requests, drafts]` token slots, `commit_lens` `[requests]`, both int32 or
        int64. A length past `drafts` keeps all of them, one below 0 none; slots past the length
        are not looked at. `cache_k` is `[requests * drafts, heads, head_dim]`, request by request,
        `cache_v` likewise with `v_head_dim`. Rows, scales and location 0 mean what they do in
        `ScaledWrite.set_kv_buffer`; on pools of latent rows rows mean what they do in
        `KVPool.set_kv_buffer`, and scales are None. Fixed-shape, without a host sync.

        :raises ValueError: for shapes that do not belong together, or a layer not owned.
        :raises IndexError: on CPU, for a slot to be kept past the last row; nothing is written.
        """
        ...
