"""Which size of tile is fastest on a GPU: those of the sources, times powers of two."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from types import ModuleType
from typing import NamedTuple

from benchmarks.gpu_check import bulk_of, run_all
from benchmarks.gpu_timing import seconds_of
from benchmarks.kernel_cases import Case, Place

__all__ = ["FACTORS", "Swept", "swept", "tiles_times"]

FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)

_TILES = ("_TILE", "_LARGE_TILE", "_TILE_BYTES", "_LARGE_TILE_BYTES", "_TILE_WORDS", "_TOKENS")
"""Constants of modules of kernels that say how much a program has, all powers of two."""


class Swept(NamedTuple):
    """The fastest factor for a case, and how many times as fast as what is served it is."""

    case: Case
    tiles: str
    factor: float
    gain: float


def swept(case: Case, device: str = "cuda", seconds: Callable[..., float] = seconds_of) -> Swept:
    """Time a case at its bulk with tiles of every factor; a factor that fails is left out."""
    tokens = bulk_of(case)
    inputs = case.inputs(Place(device, tokens, 2 * tokens, padding=False))
    module = _module_of(case, device)
    took: dict[float, float] = {}
    for factor in FACTORS:
        with tiles_times(module, factor):
            try:
                took[factor] = seconds(partial(run_all, case, inputs))
            except Exception:  # of a compiler: too many registers, too much shared memory
                if factor == 1:
                    raise
    best = min(took, key=lambda factor: took[factor])
    said = ", ".join(f"{name} = {value}" for name, value in _tiles_of(module).items())
    return Swept(case, said, best, took[1.0] / took[best])


@contextmanager
def tiles_times(module: ModuleType, factor: float) -> Generator[None]:
    """A module's tiles are so many times as large in this block."""
    served = _tiles_of(module)
    for name, value in served.items():
        setattr(module, name, max(1, int(value * factor)))
    try:
        yield
    finally:
        for name, value in served.items():
            setattr(module, name, value)


def _tiles_of(module: ModuleType) -> dict[str, int]:
    return {name: vars(module)[name] for name in _TILES if name in vars(module)}


def _module_of(case: Case, device: str) -> ModuleType:
    few = min(case.tokens)
    *_, launch = case.plan(*case.inputs(Place(device, few, 4 * few)))
    return sys.modules[launch.kernel.fn.__module__]
