"""What a deployment asks of its caches, beyond what the model's shape decides."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from kvproto.protocols import (
    DSARows,
    ElementType,
    Fallback,
    HeadLayout,
    LatentLayout,
    PlatformCapabilities,
)

from .elements import KVCacheDtype
from .option_values import Float, check_count, check_flag, check_number, check_word
from .plan_error import PlanError

__all__ = [
    "DraftKind",
    "DraftRows",
    "HeadLayout",
    "IndexRows",
    "KVSharding",
    "PoolMemory",
    "Role",
    "Rows",
    "ServingOptions",
    "SpeculativeOptions",
    "StateOptions",
    "StateTracking",
    "WindowStorage",
]

Role = Literal["unified", "prefill", "decode"]
"""Whether an instance prefills, decodes, or does both."""

StateTracking = Literal["none", "eager", "lazy"]
"""Spare state slots per request, in which a prefix's state is kept: none, all or one at first."""

Rows = Literal["kept", "none"]
"""Whether rows of tokens are kept, or attended to in the pass that makes them and then gone."""

KVSharding = Literal["none", "pages"]
"""Whether each rank keeps every row that all of them read alike, or one page in so many."""

WindowStorage = Literal["paged", "ring"]
"""Whether windows take pages beside those of the full context, or each request has a ring."""

PoolMemory = Literal["split", "unified"]
"""Whether each pool has memory of its own, or slots of all are lent from one byte buffer."""

DraftRows = Literal["own", "fused"]
"""Whether a draft has a pool of its own, or its rows lie in the model's pages."""

DraftKind = Literal["eagle", "standalone", "dflash", "ngram"]
"""What predicts tokens ahead; `ngram` has no cache of its own."""

IndexRows = Literal["model", "cache"]
"""What index rows beside rows of heads are stored in: the model's own type, or that of the rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateOptions:
    """Recurrent state: slots, or the share of memory for them.

    `full_memory_ratio` is the bytes of state to one byte of token rows, where `slots` is None.
    """

    full_memory_ratio: float = 0.9
    slots: int | None = None
    tracking: StateTracking = "none"
    conv_dtype: ElementType = "bfloat16"
    ssm_dtype: ElementType = "float32"

    def __post_init__(self) -> None:
        check_number("full_memory_ratio", self.full_memory_ratio)
        if self.full_memory_ratio <= 0:
            raise PlanError(
                "full_memory_ratio",
                self.full_memory_ratio,
                "state needs memory",
                "give more than 0",
            )
        check_count("slots", self.slots, without="leave it out")
        check_word("tracking", self.tracking, StateTracking)
        check_word("conv_dtype", self.conv_dtype, Float)
        check_word("ssm_dtype", self.ssm_dtype, Float)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeculativeOptions:
    """Tokens predicted ahead: `draft_tokens` a step, in `steps` steps of `topk` branches.

    `draft_layers` are the layers of the draft's own cache; None takes the count that its config
    states, or the model's where it has none of its own. `draft_kv_cache_dtype` is what its rows
    are stored in, None for what the model's are. `draft_attn_tp_size` ranks split its heads, None
    for as many as split a layer's attention. `draft_rows` fused lie in the pages of a unified
    buffer.
    """

    kind: DraftKind
    draft_tokens: int
    steps: int = 1
    topk: int = 1
    draft_layers: int | None = None
    draft_kv_cache_dtype: KVCacheDtype | None = None
    draft_attn_tp_size: int | None = None
    draft_rows: DraftRows = "own"

    def __post_init__(self) -> None:
        for name in ("draft_tokens", "steps", "topk"):
            check_count(name, getattr(self, name))
        for name in ("draft_layers", "draft_attn_tp_size"):
            check_count(name, getattr(self, name), without="leave it out")
        check_word("kind", self.kind, DraftKind)
        check_word("draft_rows", self.draft_rows, DraftRows)
        if self.draft_kv_cache_dtype is not None:
            check_word("draft_kv_cache_dtype", self.draft_kv_cache_dtype, KVCacheDtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingOptions:
    """How the model is served.

    `page_size` None is the platform's `default_page_size`, `layout`, which is of rows of heads
    alone, its `head_layout`, and `latent_layout`, of latent rows, its own. `swa_full_tokens_ratio`
    is the window pool's tokens to one of the full pool. Without `window_pools`, windowed layers
    keep the whole context. Tokens that left the window are evicted every
    `window_eviction_interval` steps.
    `chunked_prefill_size` None has prompts whole. `host_to_device_ratio` is how many ids are lent
    to a row of the device, most of whose tokens are on the host; None keeps all of them on the
    device. `allocator_fallback` is `none` where slots must be the platform's own allocator's.
    """

    page_size: int | None = None
    kv_cache_dtype: KVCacheDtype = "auto"
    model_dtype: ElementType = "bfloat16"
    layout: HeadLayout | None = None
    latent_layout: LatentLayout | None = None
    dsa_rows: DSARows | None = None
    index_rows: IndexRows = "model"
    device: str = "cpu"
    role: Role = "unified"
    prefix_cache: bool = True
    overlap_schedule: bool = True
    window_pools: bool = True
    window_storage: WindowStorage = "paged"
    pool_memory: PoolMemory = "split"
    rows: Rows = "kept"
    kv_sharding: KVSharding = "none"
    host_to_device_ratio: int | None = None
    enable_memory_saver: bool = False
    swa_full_tokens_ratio: float = 0.8
    chunked_prefill_size: int | None = 8192
    window_eviction_interval: int = 128
    max_total_tokens: int | None = None
    max_running_requests: int | None = None
    context_len: int | None = None
    pre_alloc_size: int = 0
    allocator_fallback: Fallback = "core"
    state: StateOptions = field(default_factory=StateOptions)
    speculative: SpeculativeOptions | None = None

    def on(self, platform: PlatformCapabilities) -> ServingOptions:
        """The same on a platform: with a page size, and a layout of rows of heads."""
        page = platform.default_page_size if self.page_size is None else self.page_size
        return replace(self, page_size=page, layout=self.layout or platform.head_layout)

    @property
    def page(self) -> int:
        """Tokens of a page.

        :raises ValueError: where none were asked for and no platform is known, see `on`.
        """
        if self.page_size is None:
            raise ValueError("page_size=None: that of a platform, which ServingOptions.on puts in")
        return self.page_size

    @property
    def rows_of_heads(self) -> HeadLayout:
        """How they lie.

        :raises ValueError: where nothing was asked for and no platform is known, see `on`.
        """
        if self.layout is None:
            raise ValueError("layout=None: that of a platform, which ServingOptions.on puts in")
        return self.layout

    @property
    def rows_to_come(self) -> int:
        """Rows of requests that do not run yet: `pre_alloc_size` on an instance that decodes."""
        return self.pre_alloc_size if self.role == "decode" else 0

    def __post_init__(self) -> None:
        check_count("window_eviction_interval", self.window_eviction_interval)
        check_count("page_size", self.page_size, without="leave it out for the platform's own")
        for name in _OPTIONAL_COUNTS:
            check_count(name, getattr(self, name), without="leave it out")
        check_count(
            "chunked_prefill_size",
            self.chunked_prefill_size,
            without="chunked_prefill_size=None for whole prompts",
        )
        check_count(
            "host_to_device_ratio",
            self.host_to_device_ratio,
            least=2,
            why="it is the tokens that a row of the device stands for",
            without="leave it out to keep every token on the device",
        )
        for name in _FLAGS:
            check_flag(name, getattr(self, name))
        for name, domain in _DOMAINS.items():
            check_word(name, getattr(self, name), domain)
        if self.layout is not None:
            check_word("layout", self.layout, HeadLayout)
        if self.latent_layout is not None:
            check_word("latent_layout", self.latent_layout, LatentLayout)
        if self.dsa_rows is not None:
            check_word("dsa_rows", self.dsa_rows, DSARows)
        check_number("swa_full_tokens_ratio", self.swa_full_tokens_ratio)
        if not 0 < self.swa_full_tokens_ratio <= 1:
            raise PlanError(
                "swa_full_tokens_ratio",
                self.swa_full_tokens_ratio,
                "it is the window pool's tokens to one of the full pool",
                "give more than 0 and at most 1",
            )
        check_count("pre_alloc_size", self.pre_alloc_size, least=0, why="rows are counted")


_OPTIONAL_COUNTS = ("max_total_tokens", "max_running_requests", "context_len")
_FLAGS = ("prefix_cache", "overlap_schedule", "window_pools", "enable_memory_saver")

_DOMAINS: dict[str, Any] = {
    "kv_cache_dtype": KVCacheDtype,
    "model_dtype": Float,
    "index_rows": IndexRows,
    "role": Role,
    "rows": Rows,
    "kv_sharding": KVSharding,
    "window_storage": WindowStorage,
    "pool_memory": PoolMemory,
    "allocator_fallback": Fallback,
}
