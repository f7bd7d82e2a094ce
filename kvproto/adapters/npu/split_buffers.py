"""The planes of latent rows as a host tier exchanges their pages."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

__all__ = ["MLASplitBuffers"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MLASplitBuffers:
    """All planes, each one run of bytes `[layers, pages, page_size, 1, width]`, page 0 reserved.

    The fields are those of sglang 0.5.23's class of that name. A page is exchanged as it lies: of
    planes in NZ order the last three axes are the shape of its bytes alone, not where a token is.
    `k` has latent parts or packed rows, `v` rope parts, without width beside packed rows, in the
    store dtype; `index_k` has index keys, and `index_scales` `[layers, pages, page_size, 1]` their
    float32 scales, None where there are none.
    """

    k: Tensor
    v: Tensor
    k_width: int
    """Elements of a row of `k`; of packed rows, bytes."""
    v_width: int
    """Elements of a row of `v`."""
    index_k: Tensor | None = None
    index_scales: Tensor | None = None
    index_layer_indices: tuple[int, ...] = ()
    """The layers in `index_k` and `index_scales`, in order, counted from the leaf's first."""
    index_width: int = 0
    """Elements of an index key; 0 without index keys."""
