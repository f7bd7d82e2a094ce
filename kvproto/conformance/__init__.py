"""The kit a vendor runs: laws, an oracle that does not trust the pool, and a verdict."""

from __future__ import annotations

from kvproto._bad_input import BadInput

from .bench import Bench
from .broken import LawBroken
from .check import check_pool
from .factory import Factory, load_factory
from .law import LAWS, Law, law
from .report import Finding, LawResult, Report

__all__ = [
    "LAWS",
    "BadInput",
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
