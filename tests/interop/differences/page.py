"""The records as a page: a table per family, in the order in which families appear."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from tests.interop.verdicts import PROVENANCE

from . import DIFFERENCES, Difference

__all__ = ["PAGE", "rendered"]

PAGE = Path(__file__).parents[3] / "docs" / "differences.md"
RELEASE = Path(__file__).parents[1] / "results" / "capabilities.json"

HEAD = """\
# Where our pools differ from sglang's

Written by `python -m tests.interop.differences --write`; do not edit. These are calls compared
side by side, on the classes of sglang {release} and on ours, in which the two differ; the other
calls of the same scripts (`tests/interop/`) gave the same bytes, descriptors and slots. The
faults of `tests/interop/faults.py` are the exception: they were shown on sglang's pools alone,
and the kit asks ours for the clause. What was not compared is not here: what every law finds in
sglang's pools is in [sglang-laws.md](sglang-laws.md). Which row a request table hands out next
is no clause: sglang's decode table hands them out in another order than ours, and the two are
compared by counts.

{provenance}

The clause is a law of the kit (`kvproto laws`), or the member of `kvproto.protocols` whose
docstring says it.
"""


def rendered() -> str:
    """The whole page."""
    release = json.loads(RELEASE.read_text())["sglang"]
    return "\n".join([HEAD.format(release=release, provenance=PROVENANCE), *_tables()])


def _tables() -> Iterator[str]:
    records = [record for section in DIFFERENCES.values() for record in section]
    for family in dict.fromkeys(record.family for record in records):
        yield f"## {family[:1].upper()}{family[1:]}\n"
        yield "| call | sglang | kvproto | clause |\n| --- | --- | --- | --- |"
        yield from (_row(record) for record in records if record.family == family)
        yield ""


def _row(record: Difference) -> str:
    call = record.operation.replace("_", " ")
    cells = (call, record.sglang, record.kvproto, f"`{record.clause}`")
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
