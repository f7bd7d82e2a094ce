"""Leaves of K and V rows by head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .row_request import RowsRequest, at_least
from .traits import BLOCK_SCALED

if TYPE_CHECKING:
    from torch import dtype

    from .traits import Layout, ScaleLayout

__all__ = ["MHALeafRequest", "SparseIndexLeafRequest", "check_sparse_layers"]

_ATOM = 32
_INTERLEAVED_PAGE = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class MHALeafRequest(RowsRequest):
    """A leaf with one K row and one V row per token, for `head_num` KV heads of this rank.

    `v_head_dim` None means `head_dim`. `scale_layout` says where block scales lie; None is what
    attention kernels expect: interleaved for `mxfp8` in pages of 128, else by token, and `none`
    where the scheme keeps no block scales.

    :raises ValueError: for counts below their minimum, a ragged last page, an unnamed scheme;
        for block-scaled rows of another element type, not of whole blocks, or whose scales
        cannot lie as asked.
    """

    head_num: int
    head_dim: int
    v_head_dim: int | None = None
    layout: Layout = "nhd"
    scale_layout: ScaleLayout | None = None

    def __post_init__(self) -> None:
        self._check("head_num", "head_dim")
        if self.v_head_dim is not None:
            at_least(self, "v_head_dim", 1)
        self._check_blocks("head_dim", "v_head_dim")
        if self.scale_layout is not None and (wrong := self._wrong_scale_layout()):
            raise ValueError(f"MHALeafRequest.scale_layout={self.scale_layout!r}: {wrong}")

    def _wrong_scale_layout(self) -> str:
        scheme, page = self.quant_scheme, self.page_size
        if (self.scale_layout == "none") is (scheme in BLOCK_SCALED):
            kept = "block scales, say where they lie" if scheme in BLOCK_SCALED else "none"
            return f"quant_scheme={scheme!r} keeps {kept}"
        if self.scale_layout != "interleaved":
            return ""
        if scheme != "mxfp8":
            return f"quant_scheme={scheme!r} keeps its scales in 'token_rows'"
        return f"page_size={page} is not whole atoms of 32 tokens" if page % _ATOM else ""

    @property
    def block_scale_layout(self) -> ScaleLayout:
        """Where block scales lie: `scale_layout`, or what that means where it is None."""
        if self.scale_layout is not None:
            return self.scale_layout
        if self.quant_scheme not in BLOCK_SCALED:
            return "none"
        interleaved = self.quant_scheme == "mxfp8" and self.page_size == _INTERLEAVED_PAGE
        return "interleaved" if interleaved else "token_rows"

    @property
    def value_head_dim(self) -> int:
        """The width of a value head: `v_head_dim`, or `head_dim` where that is None."""
        return self.head_dim if self.v_head_dim is None else self.v_head_dim

    def keywords(self) -> dict[str, Any]:
        """Keyword arguments for a constructor of the field's own shape.

        `kv_cache_layout` is among them for another layout than `nhd`, which constructors mean
        without it.
        """
        named = {} if self.layout == "nhd" else {"kv_cache_layout": self.layout}
        return self._keywords("layout", "scale_layout") | named


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseIndexLeafRequest(RowsRequest):
    """A leaf of K and V rows by head, with index rows of one head for its sparse layers.

    Index rows are at the token slots of the main rows: keys of `idx_head_dim` in every sparse
    layer, values of the same width in those that are not in `disable_value_sparse_layer_ids`.
    The three lists are the whole model's, so that stages can tell what their peers keep; of the
    stage's own layers each is dense or sparse. `index_dtype` None means `dtype`. Above 1,
    `host_to_device_ratio` is how many ids there are to a row of a sparse layer: those rows are
    device slots, all others are those of ids, and the pool is `HiSparse`.

    :raises ValueError: as `MHALeafRequest`, for lists that share or miss a layer of the stage,
        and for a model without a sparse layer, whose leaf is one of K and V rows alone.
    """

    head_num: int
    head_dim: int
    idx_head_dim: int
    dense_layer_ids: tuple[int, ...]
    sparse_layer_ids: tuple[int, ...]
    disable_value_sparse_layer_ids: tuple[int, ...] = ()
    index_dtype: dtype | None = None
    host_to_device_ratio: int = 1
    layout: Layout = "nhd"

    def __post_init__(self) -> None:
        self._check("head_num", "head_dim", "idx_head_dim", "host_to_device_ratio")
        check_sparse_layers(
            self.dense_layer_ids,
            self.sparse_layer_ids,
            self.disable_value_sparse_layer_ids,
            range(self.start_layer, self.end_layer),
        )

    @property
    def value_head_dim(self) -> int:
        """The width of a value head, that of a key head."""
        return self.head_dim

    @property
    def stored_index_dtype(self) -> dtype:
        """What an element of an index row means."""
        return self.dtype if self.index_dtype is None else self.index_dtype

    @property
    def id_slots(self) -> int:
        """Slots of ids, the reserved page's among them."""
        return self.size * self.host_to_device_ratio + self.page_size

    @property
    def index_layer_ids(self) -> tuple[int, ...]:
        """The stage's sparse layers, which have index keys."""
        return tuple(i for i in range(self.start_layer, self.end_layer) if self._is_sparse(i))

    @property
    def index_value_layer_ids(self) -> tuple[int, ...]:
        """Those of them that have index values too."""
        without = self.disable_value_sparse_layer_ids
        return tuple(i for i in self.index_layer_ids if i not in without)

    def _is_sparse(self, layer_id: int) -> bool:
        return layer_id in self.sparse_layer_ids

    def keywords(self) -> dict[str, Any]:
        """Keyword arguments for a constructor of the field's own shape.

        Above 1, `host_to_device_ratio` is among them, with the `enable_hisparse` it goes with.
        """
        ratio = self.host_to_device_ratio
        own = {"enable_hisparse": True, "host_to_device_ratio": ratio} if ratio > 1 else {}
        return self._keywords("layout", "layer_num", "host_to_device_ratio") | own


def check_sparse_layers(
    dense: Sequence[int], sparse: Sequence[int], without_values: Sequence[int], stage: range
) -> None:
    """Is each layer of the stage dense or sparse, and no layer of the model both?

    :raises ValueError: naming the list at fault.
    """
    if not sparse:
        raise ValueError("sparse_layer_ids is empty: rows without index rows are an MHA leaf's")
    for name, ids in (("dense_layer_ids", dense), ("sparse_layer_ids", sparse)):
        if len(set(ids)) != len(ids) or min(ids, default=0) < 0:
            raise ValueError(f"{name}={list(ids)}: global layer ids, none twice, none negative")
    if both := sorted(set(dense) & set(sparse)):
        raise ValueError(f"layers {both} are in dense_layer_ids and in sparse_layer_ids")
    if strange := sorted(set(without_values) - set(sparse)):
        raise ValueError(f"disable_value_sparse_layer_ids: {strange} are not in sparse_layer_ids")
    if missing := [i for i in stage if i not in dense and i not in sparse]:
        raise ValueError(
            f"layers {missing} of the stage {stage.start}..{stage.stop} (exclusive) are neither "
            "in dense_layer_ids nor in sparse_layer_ids"
        )
