"""Mutants: pools with one small fault each; a law that kills none proves nothing."""

from __future__ import annotations

from . import declarations, kv
from .registry import MUTANTS, Killed, Mutant, run_mutants

__all__ = ["MUTANTS", "Killed", "Mutant", "declarations", "kv", "run_mutants"]
