"""The engines that are run: a model of `models.py`, its page size and what its cache holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["SETTINGS", "Setting"]


@dataclass(frozen=True, slots=True)
class Setting:
    """What sglang is started with; `auto` is a cache of the weights' type, float32."""

    model: Literal["heads", "window", "latent", "hybrid"]
    page_size: int = 1
    kv_cache_dtype: Literal["auto", "fp8_e4m3"] = "auto"


SETTINGS = {
    "heads": Setting("heads"),
    "heads-16-fp8": Setting("heads", 16, "fp8_e4m3"),
    "window": Setting("window"),
    "window-16": Setting("window", 16),
    "latent": Setting("latent"),
    "hybrid": Setting("hybrid"),
}
"""By name."""
