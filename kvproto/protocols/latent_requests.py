"""Leaves of latent rows, with index keys and without."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .row_request import RowsRequest, at_least

if TYPE_CHECKING:
    from torch import dtype

    from .layout import ElementType
    from .traits import IndexLayout, Layout

__all__ = ["DSALeafRequest", "MLALeafRequest", "PageShards"]

_SCALED_TOGETHER = 128
_SCALE_BYTES = 4
_TILE = 16
_INDEX_ELEMENTS: tuple[ElementType, ...] = ("float8_e4m3fn", "float8_e4m3fnuz")
_PLAIN_ELEMENTS: tuple[ElementType, ...] = ("bfloat16", "float16", "float32")
_NO_KEYWORDS = ("layout", "skip_topk_layers", "host_to_device_ratio", "page_shards")


@dataclass(frozen=True, slots=True, kw_only=True)
class PageShards:
    """Pages of which each of `shard_size` ranks keeps its own, in turn, and gathers the others'.

    A leaf has the slots of one rank, and twice `scratch_rows` rows of one layer to gather into;
    locations are those of the whole group, and the pool is `PageSharded`.

    :raises ValueError: for fewer than two ranks, or no row of scratch.
    """

    shard_size: int
    scratch_rows: int

    def __post_init__(self) -> None:
        at_least(self, "shard_size", 2)
        at_least(self, "scratch_rows", 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class MLALeafRequest(RowsRequest):
    """A leaf with one latent row per token, `kv_lora_rank + qk_rope_head_dim` wide, latent first.

    The same rows on every tensor-parallel rank, but where `page_shards` deals pages out.
    `qk_rope_head_dim` 0 stands for a model without rotated dimensions.

    :raises ValueError: as `MHALeafRequest`.
    """

    kv_lora_rank: int
    qk_rope_head_dim: int
    layout: Layout = "latent_rows"
    page_shards: PageShards | None = None

    def __post_init__(self) -> None:
        self._check("kv_lora_rank")
        at_least(self, "qk_rope_head_dim", 0)
        self._check_blocks("kv_lora_rank", "qk_rope_head_dim")

    def keywords(self) -> dict[str, Any]:
        """Keyword arguments for a constructor of the field's own shape."""
        return self._keywords("layout", "page_shards")


@dataclass(frozen=True, slots=True, kw_only=True)
class DSALeafRequest(RowsRequest):
    """A leaf of latent rows, with a quantised index key and its scale for each token.

    `quant_scheme` is that of the rows: `none`, `fp8_scaled` for bare fp8 with a scale of 1, or
    `dsa_fp8_packed` for e4m3fn latents with a float32 scale per 128 and bf16 rope. Index keys are
    of `index_dtype` either way: `float8_e4m3fn` (which None means) or `float8_e4m3fnuz`, which have
    scales and lie in a page as `index_layout` says, or rows of a wider float without scales.
    `skip_topk_layers` has one flag per layer, True for a layer that
    reuses the choice of an earlier one and needs no index keys; empty means that every layer has
    its own. `index_kpool` tokens share an index key; where they are several and
    `index_kpool_compress` asks for weighed ones, there are rings of raw keys and scores,
    `index_kpool + tail_extra_slots` tokens long, for each of `max_running_requests` and for
    padding. Above 1, `host_to_device_ratio` is how many ids there are to a row: rows are device
    slots, index keys are those of ids, and the pool is `HiSparse`. `page_shards` is as in
    `MLALeafRequest`.

    `dcp_size` ranks number their tokens together, in pages of them all: each rank has the index
    keys of every token, in `dcp_size` index pages for such a page. Its rows are those of its own
    tokens, a page of rows for such a page, or where `dcp_replicated` those of every token.

    :raises ValueError: as `MHALeafRequest`, for flags that are not one a layer, for packed rows
        of another dtype or a rank that is not whole blocks, and for groups that do not divide a
        page, have no requests to hold rings for or are several ranks' tokens; for rows of all
        ranks' tokens in pages that are not a multiple of `dcp_size`, and ranks beside a ratio; for
        index keys of another element, and pages or keys that are not whole tiles, preshuffled.
    """

    kv_lora_rank: int
    qk_rope_head_dim: int
    index_head_dim: int
    skip_topk_layers: tuple[bool, ...] = ()
    index_kpool: int = 1
    index_kpool_compress: bool = False
    tail_extra_slots: int = 0
    max_running_requests: int | None = None
    host_to_device_ratio: int = 1
    dcp_size: int = 1
    dcp_replicated: bool = False
    index_dtype: dtype | None = None
    index_layout: IndexLayout = "token_rows"
    layout: Layout = "latent_rows"
    page_shards: PageShards | None = None

    def __post_init__(self) -> None:
        self._check("kv_lora_rank", "index_head_dim", "host_to_device_ratio")
        at_least(self, "qk_rope_head_dim", 0)
        self._check_blocks("kv_lora_rank", "qk_rope_head_dim")
        if self.skip_topk_layers and len(self.skip_topk_layers) != self.layer_num:
            raise ValueError(
                f"DSALeafRequest.skip_topk_layers has {len(self.skip_topk_layers)} flags: must be "
                f"one for each of {self.layer_num} layers, or none at all"
            )
        if self.quant_scheme == "dsa_fp8_packed":
            self._check_packed()
        self._check_groups()
        self._check_ranks()
        self._check_index()

    def _check_index(self) -> None:
        if self.index_element not in (*_INDEX_ELEMENTS, *_PLAIN_ELEMENTS):
            raise ValueError(
                f"DSALeafRequest.index_dtype={self.index_dtype}: index keys are "
                f"{' or '.join(_INDEX_ELEMENTS)}, or rows of {', '.join(_PLAIN_ELEMENTS)}"
            )
        if self.index_layout == "preshuffled" and (
            self.index_page_size % _TILE or self.index_head_dim % _TILE
        ):
            raise ValueError(
                f"DSALeafRequest.index_layout='preshuffled': {self.index_page_size} keys of "
                f"index_head_dim={self.index_head_dim} on a page: both must be multiples of {_TILE}"
            )

    @property
    def index_element(self) -> str:
        """What an element of an index key means, by name: `index_dtype`, or what None means."""
        if self.index_dtype is None:
            return "float8_e4m3fn"
        return str(self.index_dtype).removeprefix("torch.")

    def _check_ranks(self) -> None:
        at_least(self, "dcp_size", 1)
        if self.dcp_size > 1 and self.index_kpool > 1:
            raise ValueError(
                f"DSALeafRequest.dcp_size={self.dcp_size}: the {self.index_kpool} tokens of an "
                "index key are several ranks'"
            )
        if self.dcp_size > 1 and self.host_to_device_ratio > 1:
            raise ValueError(
                f"DSALeafRequest.dcp_size={self.dcp_size}: ids that ranks number together have no "
                f"rows on a host (host_to_device_ratio={self.host_to_device_ratio})"
            )
        if self.dcp_replicated and self.page_size % self.dcp_size:
            raise ValueError(
                f"DSALeafRequest.page_size={self.page_size}: rows of {self.dcp_size} ranks' tokens "
                "lie in pages that are a multiple of it"
            )

    def _check_groups(self) -> None:
        at_least(self, "index_kpool", 1)
        at_least(self, "tail_extra_slots", 0)
        if self.page_size % self.index_kpool:
            raise ValueError(
                f"DSALeafRequest.index_kpool={self.index_kpool}: must divide page_size="
                f"{self.page_size}"
            )
        if self.has_tails:
            at_least(self, "max_running_requests", 1)
            if self.index_head_dim & (self.index_head_dim - 1):
                raise ValueError(
                    f"DSALeafRequest.index_head_dim={self.index_head_dim}: weighed keys are "
                    "rotated, which needs a power of two"
                )

    @property
    def index_slots(self) -> int:
        """Tokens that there is room for index keys of, the reserved page's among them."""
        return (self.size * self.host_to_device_ratio + self.page_size) * self.index_spans

    @property
    def has_tails(self) -> bool:
        """Are there rings for the tokens of a request that have no index key yet?"""
        return self.index_kpool > 1 and self.index_kpool_compress

    @property
    def index_key_bytes(self) -> int:
        """Bytes of an index key, its scale included."""
        size = 1 if self.index_dtype is None else self.index_dtype.itemsize
        return self.index_head_dim * size + (_SCALE_BYTES if self.has_index_scales else 0)

    @property
    def has_index_scales(self) -> bool:
        """Whether index keys are quantised; plain ones are rows without a scale."""
        return self.index_element in _INDEX_ELEMENTS

    @property
    def index_page_size(self) -> int:
        """Index keys of an index page."""
        ranks = self.dcp_size if self.dcp_replicated else 1
        return self.page_size // self.index_kpool // ranks

    @property
    def index_spans(self) -> int:
        """Tokens that have index keys, to one that has a row."""
        return 1 if self.dcp_replicated else self.dcp_size

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
        """Keyword arguments for a constructor of the field's own shape.

        `host_to_device_ratio` is among them above 1, for a constructor that knows it, and so are
        `dcp_size` and `dcp_replicated` where several ranks split a request's tokens, `index_dtype`
        and `index_layout` where they are not what constructors mean without them.
        """
        flags = list(self.skip_topk_layers) or None
        own: dict[str, Any] = {"kv_cache_dim": self.kv_cache_dim, "skip_topk_layers": flags}
        if self.host_to_device_ratio > 1:
            own["host_to_device_ratio"] = self.host_to_device_ratio
        meant = [] if self.dcp_size > 1 else ["dcp_size", "dcp_replicated"]
        meant += ["index_dtype"] if self.index_dtype is None else []
        meant += ["index_layout"] if self.index_layout == "token_rows" else []
        return self._keywords(*_NO_KEYWORDS, *meant) | own
