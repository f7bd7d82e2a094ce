"""The kit a vendor runs: laws, an oracle that does not trust the pool, and a verdict."""

from __future__ import annotations

from kvproto._bad_input import BadInput

from .bench import Bench
from .broken import LawBroken
from .check import check_pool
from .check_platform import check_platform
from .factory import Factory, load_factory
from .found import LAWS_VERSION
from .law import LAWS, Law, law
from .report import Finding, LawResult, Report, Subject
from .row_access import RowAccess, RowPart

__all__ = [
    "LAWS",
    "LAWS_VERSION",
    "BadInput",
    "Bench",
    "Factory",
    "Finding",
    "Law",
    "LawBroken",
    "LawResult",
    "Report",
    "RowAccess",
    "RowPart",
    "Subject",
    "check_platform",
    "check_pool",
    "law",
    "load_factory",
]
