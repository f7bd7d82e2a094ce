"""Mutants: pools with one small fault each; a law that kills none proves nothing."""

from __future__ import annotations

from . import accounts, composites, declarations, kv, latent
from .registry import MUTANTS, Killed, Mutant, run_mutants

__all__ = [
    "MUTANTS",
    "Killed",
    "Mutant",
    "accounts",
    "composites",
    "declarations",
    "kv",
    "latent",
    "run_mutants",
]
