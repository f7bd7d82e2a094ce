"""What the in-process runs are asked to generate with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["MATRIX", "SAMPLE", "Configuration"]

Backend = Literal["torch_native", "triton"]
CacheDtype = Literal["float32", "bfloat16", "fp8_e4m3", "fp8_e5m2"]


@dataclass(frozen=True, slots=True)
class Configuration:
    """A model of `models.py`, and how its cache is kept and read.

    Prompts are so long that they end before, on and past the end of a page of 16 and of the window,
    which is also 16; `new_tokens` more are generated, greedily. The interpreter is slow: where
    kernels go through it the prompts are fewer, or the new tokens.
    """

    model: str
    backend: Backend
    page_size: int
    kv_cache_dtype: CacheDtype

    @property
    def name(self) -> str:
        """As in tables."""
        return f"{self.model}/{self.backend}/page {self.page_size}/{self.kv_cache_dtype}"

    @property
    def dtype(self) -> Literal["float32", "bfloat16"]:
        """Of the weights: Triton's interpreter, which the hybrid's convolutions go through too,
        computes nonsense with bf16.
        """
        interpreted = self.backend == "triton" or self.model == "hybrid"
        return "float32" if interpreted else "bfloat16"

    @property
    def prompt_lens(self) -> tuple[int, ...]:
        """Tokens of each prompt of the batch."""
        return (5, 16, 17, 43) if self.backend == "torch_native" else (15, 18)

    @property
    def new_tokens(self) -> int:
        """Tokens generated for each."""
        if self.backend == "triton":
            return 4
        return 8 if self.model == "hybrid" else 24


def _all() -> tuple[Configuration, ...]:
    dtypes: tuple[CacheDtype, ...] = ("bfloat16", "fp8_e4m3", "fp8_e5m2")
    read_by: dict[Backend, tuple[CacheDtype, ...]] = {
        "torch_native": dtypes,
        "triton": ("float32", "fp8_e4m3", "fp8_e5m2"),
    }
    return (
        *(
            Configuration(model, backend, page, dtype)
            for model in ("heads", "window", "latent")
            for backend, read in read_by.items()
            for page in (1, 16)
            for dtype in read
        ),
        *(Configuration("hybrid", "torch_native", 1, dtype) for dtype in dtypes),
    )


MATRIX = _all()
SAMPLE = (
    Configuration("heads", "torch_native", 16, "bfloat16"),
    Configuration("window", "torch_native", 16, "fp8_e4m3"),
    Configuration("window", "triton", 1, "float32"),
    Configuration("latent", "torch_native", 1, "fp8_e4m3"),
    Configuration("latent", "triton", 16, "fp8_e4m3"),
    Configuration("hybrid", "torch_native", 1, "bfloat16"),
)
"""Every model, backend, page size and dtype, in little time."""
