"""What a platform is asked to build: one frozen request per kind of leaf.

A request says what the leaf must hold, in the words of the pools' constructors, and nothing
about how the asker decided. `keywords()` gives those constructor keywords.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from .traits import BLOCK_SCALED

if TYPE_CHECKING:
    from torch import device, dtype

    from .traits import Layout, QuantScheme, ScaleLayout

__all__ = [
    "AllocatorKind",
    "AllocatorRequest",
    "DSALeafRequest",
    "Declined",
    "LeafRequest",
    "MHALeafRequest",
    "MLALeafRequest",
    "SparseIndexLeafRequest",
]


@dataclass(frozen=True, slots=True)
class Declined:
    """A builder's answer to a request it does not serve; `reason` is for the person who asked."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _RowsRequest:
    """The fields every leaf of token rows needs.

    `size` counts usable token slots without the reserved page and is a multiple of `page_size`:
    engines count tokens by memory and round them down to whole pages before they ask, so that no
    builder meets a last page that is short. `dtype` is what a stored element means. Layers are
    global ids `start_layer .. start_layer + layer_num - 1`; `layer_num` may be 0.
    """

    size: int
    page_size: int
    dtype: dtype
    layer_num: int
    device: str | device
    start_layer: int = 0
    enable_memory_saver: bool = False
    quant_scheme: QuantScheme = "none"

    @property
    def end_layer(self) -> int:
        """One past the last global layer id."""
        return self.start_layer + self.layer_num

    def _check(self, *positive: str) -> None:
        for name in ("size", "page_size", *positive):
            _at_least(self, name, 1)
        for name in ("layer_num", "start_layer"):
            _at_least(self, name, 0)
        _whole_pages(self, self.size, self.page_size)
        is_fp8 = self.dtype.itemsize == 1 and self.dtype.is_floating_point
        if is_fp8 and self.quant_scheme == "none":
            raise ValueError(
                f"{type(self).__name__}.quant_scheme='none': dtype={self.dtype} is a quantised "
                "type, name its scheme (for per-tensor scales 'fp8_scaled')"
            )

    def _check_blocks(self, *widths: str) -> None:
        """Rows under block scales are of the scheme's element type, and whole blocks wide."""
        name, dtype = type(self).__name__, str(self.dtype)
        if dtype == _FP4 and self.quant_scheme not in ("fp4_mx16", "nvfp4"):
            raise ValueError(
                f"{name}.quant_scheme={self.quant_scheme!r}: dtype={dtype} is block-scaled, its "
                "schemes are 'fp4_mx16' and 'nvfp4'"
            )
        if self.quant_scheme not in BLOCK_SCALED:
            return
        element, block = _BLOCKS[self.quant_scheme]
        if dtype != element:
            raise ValueError(f"{name}.dtype={dtype}: {self.quant_scheme!r} stores {element}")
        for width in widths:
            value: object = getattr(self, width)
            if isinstance(value, int) and value % block:
                raise ValueError(
                    f"{name}.{width}={value}: {self.quant_scheme!r} scales whole blocks of {block}"
                )

    def _keywords(self, *left_out: str) -> dict[str, Any]:
        names = [f.name for f in fields(self) if f.name not in ("quant_scheme", *left_out)]
        keywords: dict[str, Any] = {name: getattr(self, name) for name in names}
        return keywords | {"end_layer": self.end_layer}


@dataclass(frozen=True, slots=True, kw_only=True)
class MHALeafRequest(_RowsRequest):
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
            _at_least(self, "v_head_dim", 1)
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
class MLALeafRequest(_RowsRequest):
    """A leaf with one latent row per token, `kv_lora_rank + qk_rope_head_dim` wide, latent first.

    The same rows on every tensor-parallel rank. `qk_rope_head_dim` 0 stands for a model without
    rotated dimensions.

    :raises ValueError: as `MHALeafRequest`.
    """

    kv_lora_rank: int
    qk_rope_head_dim: int
    layout: Layout = "latent_rows"

    def __post_init__(self) -> None:
        self._check("kv_lora_rank")
        _at_least(self, "qk_rope_head_dim", 0)
        self._check_blocks("kv_lora_rank", "qk_rope_head_dim")

    def keywords(self) -> dict[str, Any]:
        """Keyword arguments for a constructor of the field's own shape."""
        return self._keywords("layout")


@dataclass(frozen=True, slots=True, kw_only=True)
class DSALeafRequest(_RowsRequest):
    """A leaf of latent rows, with a quantised index key and its scale for each token.

    `quant_scheme` is that of the rows: `none`, or `dsa_fp8_packed` for e4m3fn latents with a
    float32 scale per 128 and bf16 rope. Index keys are e4m3fn either way. `skip_topk_layers` has
    one flag per layer, True for a layer that reuses the choice of an earlier one and needs no
    index keys; empty means that every layer has its own. `index_kpool` tokens share an index key;
    where they are several and `index_kpool_compress` asks for weighed ones, there are rings of raw
    keys and scores, `index_kpool + tail_extra_slots` tokens long, for each of
    `max_running_requests` and for padding.

    :raises ValueError: as `MHALeafRequest`, for flags that are not one a layer, for packed rows
        of another dtype or a rank that is not whole blocks, and for groups that do not divide a
        page or have no requests to hold rings for.
    """

    kv_lora_rank: int
    qk_rope_head_dim: int
    index_head_dim: int
    skip_topk_layers: tuple[bool, ...] = ()
    index_kpool: int = 1
    index_kpool_compress: bool = False
    tail_extra_slots: int = 0
    max_running_requests: int | None = None
    layout: Layout = "latent_rows"

    def __post_init__(self) -> None:
        self._check("kv_lora_rank", "index_head_dim")
        _at_least(self, "qk_rope_head_dim", 0)
        self._check_blocks("kv_lora_rank", "qk_rope_head_dim")
        if self.skip_topk_layers and len(self.skip_topk_layers) != self.layer_num:
            raise ValueError(
                f"DSALeafRequest.skip_topk_layers has {len(self.skip_topk_layers)} flags: must be "
                f"one for each of {self.layer_num} layers, or none at all"
            )
        if self.quant_scheme == "dsa_fp8_packed":
            self._check_packed()
        self._check_groups()

    def _check_groups(self) -> None:
        _at_least(self, "index_kpool", 1)
        _at_least(self, "tail_extra_slots", 0)
        if self.page_size % self.index_kpool:
            raise ValueError(
                f"DSALeafRequest.index_kpool={self.index_kpool}: must divide page_size="
                f"{self.page_size}"
            )
        if self.has_tails:
            _at_least(self, "max_running_requests", 1)
            if self.index_head_dim & (self.index_head_dim - 1):
                raise ValueError(
                    f"DSALeafRequest.index_head_dim={self.index_head_dim}: weighed keys are "
                    "rotated, which needs a power of two"
                )

    @property
    def has_tails(self) -> bool:
        """Are there rings for the tokens of a request that have no index key yet?"""
        return self.index_kpool > 1 and self.index_kpool_compress

    @property
    def index_page_size(self) -> int:
        """Index keys of a page."""
        return self.page_size // self.index_kpool

    @property
    def tail_rows(self) -> int:
        """Request rows of a ring buffer, the padding row included; 0 without rings."""
        return (self.max_running_requests or 0) + 1 if self.has_tails else 0

    @property
    def tail_length(self) -> int:
        """Tokens that a ring holds."""
        return self.index_kpool + self.tail_extra_slots

    def _check_packed(self) -> None:
        if str(self.dtype) != "torch.float8_e4m3fn":
            raise ValueError(f"DSALeafRequest.dtype={self.dtype}: packed latents are float8_e4m3fn")
        if self.kv_lora_rank % _SCALED_TOGETHER:
            raise ValueError(
                f"DSALeafRequest.kv_lora_rank={self.kv_lora_rank}: packed rows hold whole blocks "
                f"of {_SCALED_TOGETHER}"
            )

    @property
    def kv_cache_dim(self) -> int:
        """Elements of a stored row: both parts, or the bytes of the packed row."""
        if self.quant_scheme == "dsa_fp8_packed":
            scales = self.kv_lora_rank // _SCALED_TOGETHER
            return self.kv_lora_rank + 4 * scales + 2 * self.qk_rope_head_dim
        return self.kv_lora_rank + self.qk_rope_head_dim

    def keywords(self) -> dict[str, Any]:
        """Keyword arguments for a constructor of the field's own shape."""
        flags = list(self.skip_topk_layers) or None
        own = {"kv_cache_dim": self.kv_cache_dim, "skip_topk_layers": flags}
        return self._keywords("layout", "skip_topk_layers") | own


_SCALED_TOGETHER = 128
_FP4 = "torch.float4_e2m1fn_x2"
_BLOCKS: dict[str, tuple[str, int]] = {
    "mxfp8": ("torch.float8_e4m3fn", 32),
    "fp4_mx16": (_FP4, 16),
    "nvfp4": (_FP4, 16),
}
"""Element type of each block-scaled scheme, and elements that share a scale."""

_ATOM = 32
_INTERLEAVED_PAGE = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseIndexLeafRequest(_RowsRequest):
    """A leaf of K and V rows by head, with index rows of one head for its sparse layers.

    Index rows are at the token slots of the main rows: keys of `idx_head_dim` in every sparse
    layer, values of the same width in those that are not in `disable_value_sparse_layer_ids`.
    The three lists are the whole model's, so that stages can tell what their peers keep; of the
    stage's own layers each is dense or sparse. `index_dtype` None means `dtype`.

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
    layout: Layout = "nhd"

    def __post_init__(self) -> None:
        self._check("head_num", "head_dim", "idx_head_dim")
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
        """Keyword arguments for a constructor of the field's own shape."""
        return self._keywords("layout", "layer_num")


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


LeafRequest: TypeAlias = MHALeafRequest | MLALeafRequest | DSALeafRequest | SparseIndexLeafRequest

AllocatorKind = Literal["token", "paged"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatorRequest:
    """An allocator that hands out `size` slots, `page_size .. size + page_size - 1`.

    `size` is whole pages, as that of the pool is. `need_sort` asks for freed pages to come back in
    ascending order.

    :raises ValueError: for sizes below one, or not of whole pages.
    """

    kind: AllocatorKind
    size: int
    page_size: int
    device: str | device
    need_sort: bool = False

    def __post_init__(self) -> None:
        for name in ("size", "page_size"):
            _at_least(self, name, 1)
        _whole_pages(self, self.size, self.page_size)


def _whole_pages(request: object, size: int, page_size: int) -> None:
    if size % page_size:
        raise ValueError(
            f"{type(request).__name__}.size={size}: not a multiple of page_size={page_size}, the "
            f"last page would be short; round down to {size // page_size * page_size}"
        )


def _at_least(request: object, name: str, minimum: int) -> None:
    value: object = getattr(request, name)
    if not isinstance(value, int) or value < minimum:
        raise ValueError(
            f"{type(request).__name__}.{name}={value!r}: must be an integer of at least {minimum}"
        )
