"""Device subsets and rings that both sides size."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["RINGS", "SHARDS", "SUBSETS", "RingCase", "ShardCase", "SubsetCase"]


@dataclass(frozen=True, kw_only=True)
class SubsetCase:
    """A model of which the device has rows for one of `ratio` tokens."""

    model: str
    ratio: int
    kv_dtype: str = "auto"
    tp: int = 1
    draft_layers: int = 0

    @property
    def name(self) -> str:
        """The case in one word."""
        return "/".join(str(getattr(self, n)) for n in self.__dataclass_fields__)


@dataclass(frozen=True, kw_only=True)
class RingCase:
    """A ring for each of so many requests, and for those to come; drafted tokens or None."""

    window: int
    page_size: int
    requests: int
    to_come: int = 0
    draft_tokens: int | None = None

    @property
    def name(self) -> str:
        """The case in one word."""
        return "/".join(str(getattr(self, n)) for n in self.__dataclass_fields__)


@dataclass(frozen=True, kw_only=True)
class ShardCase:
    """A model whose pages so many ranks keep in turn."""

    model: str
    tp: int
    kv_dtype: str = "auto"

    @property
    def name(self) -> str:
        """The case in one word."""
        return "/".join(str(getattr(self, n)) for n in self.__dataclass_fields__)


SHARDS: tuple[ShardCase, ...] = (
    ShardCase(model="deepseek_v3", tp=8),
    ShardCase(model="deepseek_v2", tp=2, kv_dtype="fp8_e4m3"),
    ShardCase(model="deepseek_v32", tp=4, kv_dtype="fp8_e4m3"),
    ShardCase(model="glm_moe_dsa", tp=8),
)
SUBSETS: tuple[SubsetCase, ...] = (
    SubsetCase(model="deepseek_v32", ratio=2),
    SubsetCase(model="deepseek_v32", ratio=5, kv_dtype="fp8_e4m3", tp=8),
    SubsetCase(model="deepseek_v32", ratio=3, draft_layers=1),
    SubsetCase(model="minimax_m3_vl", ratio=2),
    SubsetCase(model="minimax_m3_vl", ratio=4, kv_dtype="fp8_e4m3", tp=2),
)
RINGS: tuple[RingCase, ...] = (
    RingCase(window=128, page_size=16, requests=64),
    RingCase(window=128, page_size=1, requests=7, draft_tokens=4),
    RingCase(window=128, page_size=16, requests=64, to_come=10, draft_tokens=4),
    RingCase(window=100, page_size=64, requests=3),
)
