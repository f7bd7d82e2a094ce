"""The recorded verdicts as a page.

python -m tests.interop.laws_page [--write]      compare docs/sglang-laws.md with them, or write it
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.interop.verdicts import PROVENANCE, causes, recorded, red, release, stopped

__all__ = ["PAGE", "rendered"]

PAGE = Path(__file__).parents[2] / "docs" / "sglang-laws.md"

HEAD = """\
# What the laws find in sglang's pools

Written by `python -m tests.interop.laws_page --write`; do not edit. The pools are those of sglang
{release}, each law runs in a process of its own (`tests/interop/`). `over` names the leaves of a
composite; `SWAPool` and `HybridLinearPool` are ours.

{provenance}

A cell counts laws of a family: kept of those that bind the pool and had something to ask of it. A
law is kept where it holds in every geometry; `b` counts those that did not run, since a law that
they rely on is broken. Bytes are read behind the pools' own doors, for they declare no regions.

{red} rows of the tables below are red: a law that a pool breaks in some geometry. Not each of
them is a fault of its own. {frozen} fail only since sglang assigns `layer_id` on the caller's
layer object, which the kit's layer refuses, {everywhere} of these in every geometry that was
asked. {asserted} fail only since `set_kv_buffer` raises AssertionError, in each geometry in
which they fail: for a plain tensor of locations on a window layer, or for packed rows. In both
the law stopped at that write, so what its clause asks beyond it was not reached; but for
`swa.bare-loc`, whose clause is that very write.
"""
"""What the page says before its tables."""


def rendered() -> str:
    """The whole page."""
    head = HEAD.format(release=release(), provenance=PROVENANCE, **_counts())
    return "\n".join([head, *_matrix(), "", *_broken()])


def _counts() -> dict[str, int]:
    verdicts = recorded()
    frozen = stopped(verdicts, "FrozenInstanceError")
    failed = (verdicts[pool][law].values() for pool, law in frozen)
    return {
        "red": len(red(verdicts)),
        "frozen": len(frozen),
        "everywhere": sum(all(told.startswith("failed") for told in specs) for specs in failed),
        "asserted": len(stopped(verdicts, "AssertionError")),
    }


def _matrix() -> Iterator[str]:
    verdicts = recorded()
    families = sorted({_family(law) for laws in verdicts.values() for law in laws})
    yield _row(["pool", *families])
    yield _row(["---"] * (1 + len(families)))
    for pool, laws in verdicts.items():
        yield _row([pool, *(_cell(laws, family) for family in families)])


def _cell(laws: Mapping[str, Mapping[str, str]], family: str) -> str:
    told = [_outcome(specs) for law, specs in laws.items() if _family(law) == family]
    outcomes = [outcome for outcome in told if outcome != "not asked"]
    if not outcomes:
        return ""
    blocked = f", {outcomes.count('blocked')} b" if "blocked" in outcomes else ""
    kept = f"{outcomes.count('kept')}/{len(outcomes)}{blocked}"
    return f"**{kept}**" if "broken" in outcomes else kept


def _outcome(specs: Mapping[str, str]) -> str:
    for status, outcome in (("failed", "broken"), ("blocked", "blocked")):
        if any(verdict.startswith(status) for verdict in specs.values()):
            return outcome
    unasked = all(verdict.startswith("not asked") for verdict in specs.values())
    return "not asked" if unasked else "kept"


def _broken() -> Iterator[str]:
    """A table per pool, a row for each law that it breaks."""
    for pool, laws in recorded().items():
        broken = [law for law, specs in laws.items() if _outcome(specs) == "broken"]
        if not broken:
            continue
        yield f"## {pool}\n"
        yield _row(["law", "in", "why"])
        yield _row(["---"] * 3)
        for law in broken:
            yield _row([f"`{law}`", _how_often(laws[law]), _why(pool, law)])
        yield ""


def _how_often(specs: Mapping[str, str]) -> str:
    asked = [verdict for verdict in specs.values() if not verdict.startswith("not asked")]
    return f"{sum(verdict.startswith('failed') for verdict in asked)} of {len(asked)}"


def _why(pool: str, law: str) -> str:
    return " ".join(cause.sentence for cause in causes() if (pool, law) in cause.pairs())


def _family(law: str) -> str:
    return law.split(".", 1)[0]


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def main(arguments: list[str]) -> int:
    """0: the page is current, or was written; 1: it is not; 2: the arguments are at fault."""
    if arguments not in ([], ["--write"]):
        print(__doc__, file=sys.stderr)
        return 2
    if arguments:
        PAGE.write_text(rendered())
    elif not PAGE.exists() or PAGE.read_text() != rendered():
        print(f"{PAGE.name} is not current: write it with --write", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
