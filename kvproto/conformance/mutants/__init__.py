"""Mutants: pools with one small fault each; a law that kills none proves nothing."""

from __future__ import annotations

from . import (
    accounts,
    addresses,
    commit,
    composites,
    declarations,
    facts,
    hisparse_accounts,
    index_keys,
    kv,
    latent,
    layouts,
    memory_saver,
    pair_accounts,
    platforms,
    pure_windows,
    regions,
    row_access,
    row_accounts,
    states,
    window_pairs,
)
from .registry import MUTANTS, Killed, Mutant, run_mutants

__all__ = [
    "MUTANTS",
    "Killed",
    "Mutant",
    "accounts",
    "addresses",
    "commit",
    "composites",
    "declarations",
    "facts",
    "hisparse_accounts",
    "index_keys",
    "kv",
    "latent",
    "layouts",
    "memory_saver",
    "pair_accounts",
    "platforms",
    "pure_windows",
    "regions",
    "row_access",
    "row_accounts",
    "run_mutants",
    "states",
    "window_pairs",
]
