"""The kit a vendor runs: laws, an oracle that does not trust the pool, and a verdict."""

from __future__ import annotations

from .bench import Bench
from .check import check_pool
from .factory import BadFactory, Factory, load_factory
from .law import LAWS, Law, LawBroken, law
from .report import Finding, LawResult, Report

__all__ = [
    "LAWS",
    "BadFactory",
    "Bench",
    "Factory",
    "Finding",
    "Law",
    "LawBroken",
    "LawResult",
    "Report",
    "check_pool",
    "law",
    "load_factory",
]
