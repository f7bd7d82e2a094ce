"""What every rewritten gate answers, as data (`equivalence.csv`) and as a page.

python -m tests.interop.gates.equivalence_page --write    ask anew, and write both (a minute)
python -m tests.interop.gates.equivalence_page --page     the page, from the data that is there
"""

from __future__ import annotations

import csv
import io
import json
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kvproto.gates import Gate, Profile, load_profile, scan
from tests.interop import make_venv, report
from tests.interop.gates.questions import Question, members_of, questions_of

__all__ = ["DATA", "PAGE", "as_csv", "asked_of", "rendered", "rows_of"]

DATA = Path(__file__).parent / "equivalence.csv"
PAGE = Path(__file__).parents[3] / "docs" / "gates-equivalence.md"

NOT_BUILT = {
    "BaseSWAKVPool": "abstract",
    "BaseTokenToKVPoolAllocator": "abstract",
    "HostKVCache": "abstract",
    "KVCache": "abstract",
    "MHATokenToKVPoolMXFP8Host": "its constructor wants a kernel of CUDA or HIP",
    "PageInterleaveKVPoolMixin": "abstract",
    "PageMajorMHATokenToKVPool": "sglang 0.5.23 refuses to build it anywhere",
    "UnifiedSWAAllocatorBase": "abstract",
}
"""Classes of the profile that no object here is of; the abstract have subclasses that are."""

DIFFERENT = {
    "UnifiedHybridReqToTokenPool (before its allocator)": "sglang gives the table its "
    "`mamba_allocator` in the function that builds it (`unified_memory_pool.py`), before anybody "
    "else sees it; until then the table cannot lend states, and is no `StateRequestPool`",
}
"""Object -> why its answer to some question is another now."""

_HEAD = """\
# What rewritten gates answer

Written by `make gates-equivalence`; do not edit. `kvproto gates` rewrote these gates of sglang
{release}. Each question that they ask was put to sglang's real objects, built on a CPU with the
classes as they are: as it was, and as it is after the rewrite. Gates that ask the same have one
row. The answers, and the places of the gates, are in
[equivalence.csv](../tests/interop/gates/equivalence.csv); `tests/interop/gates/` asks all of it
again, and once more of a rewritten sglang, and compares. A table of classes, which is asked before
there is a pool, was put to the classes of all these objects: it lets the same ones through.

{total}

The classes are sglang's own; some of what they call is not. Communicators of groups of ranks are
stood in for, and so is the call that pins host memory. Modules without behaviour stand in for
`torch_npu` and `mlx` while the pools that import them are imported.
"""


def rows_of(told: Mapping[str, Any], asked: Mapping[Question, list[Gate]]) -> list[dict[str, str]]:
    """A row per question: what was asked, what is, how often and where, then the answers."""
    rows: list[dict[str, str]] = []
    for (question, gates), answers in zip(asked.items(), told["answers"], strict=True):
        places = sorted(f"{gate.file}:{gate.line}" for gate in gates)
        row = {"asked": question.was, "asks now": question.test, "gates": str(len(gates))}
        row |= {"places": " ".join(places)}
        names = (_label(name, cls) for name, cls in told["objects"].items())
        rows.append(row | {name: _cell(*both) for name, both in zip(names, answers, strict=True)})
    return rows


def _label(name: str, cls: str) -> str:
    return name if name.startswith(cls) else f"{cls} ({name})"


def _cell(was: object, now: object) -> str:
    return _word(was) if was == now else f"{_word(was)}, now {_word(now)}"


def _word(answer: object) -> str:
    return "yes" if answer else "no"


def as_csv(rows: list[dict[str, str]]) -> str:
    """The data file."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def rendered(rows: list[dict[str, str]], profile: Profile) -> str:
    """The page."""
    members = [row for row in rows if row["asked"].startswith("hasattr")]
    rows = [row for row in rows if row not in members]
    head = _HEAD.format(release=profile.covers.rpartition(" ")[2], total=total(rows))
    parts = [head, *_questions(rows), "", *_differences(rows), "", *_members(members), ""]
    parts += _objects(rows, profile)
    return "\n".join(parts) + "\n"


def total(rows: list[dict[str, str]]) -> str:
    """One line of counts."""
    cells = Counter(cell for row in rows for cell in _answers(row).values())
    differ = sum(count for cell, count in cells.items() if "now" in cell)
    yes = sum(count for cell, count in cells.items() if cell.startswith("yes"))
    gates = sum(int(row["gates"]) for row in rows)
    never = sum(not any(c.startswith("yes") for c in _answers(row).values()) for row in rows)
    return (
        f"{gates} gates ask {len(rows)} questions; of {len(_answers(rows[0]))} objects: "
        f"{cells.total()} answers, {yes} of them yes, {differ} different; "
        f"{never} questions that nothing answers with yes."
    )


def _answers(row: Mapping[str, str]) -> dict[str, str]:
    return dict(list(row.items())[4:])


def _questions(rows: list[dict[str, str]]) -> Iterator[str]:
    yield "## Questions"
    yield ""
    yield "Whoever is not named said no, then and now; a class stands for all objects of it."
    yield ""
    yield "| gates | asked | asks now | yes |"
    yield "| ---: | --- | --- | --- |"
    for row in rows:
        names = ", ".join(_said_yes(_answers(row))) or "nothing here"
        yield f"| {row['gates']} | `{row['asked']}` | `{row['asks now']}` | {names} |"


def _said_yes(answers: Mapping[str, str]) -> Iterator[str]:
    of_class: dict[str, list[str]] = defaultdict(list)
    for name in answers:
        of_class[_class_of(name)].append(name)
    for cls, names in of_class.items():
        yes = [name for name in names if answers[name].startswith("yes")]
        yield from [cls] if len(yes) == len(names) else yes


def _class_of(name: str) -> str:
    return name.partition(" (")[0]


def _differences(rows: list[dict[str, str]]) -> Iterator[str]:
    yield "## Differences"
    yield ""
    yield "| object | asked | answer | why |"
    yield "| --- | --- | --- | --- |"
    for row in rows:
        for name, cell in _answers(row).items():
            if "now" in cell:
                yield f"| {name} | `{row['asked']}` | {cell} | {DIFFERENT[name]} |"


def _members(rows: list[dict[str, str]]) -> Iterator[str]:
    same = [row for row in rows if not any("now" in cell for cell in _answers(row).values())]
    gates, alike = (sum(int(row["gates"]) for row in some) for some in (rows, same))
    yield "## Members"
    yield ""
    yield (
        f"{gates} gates that try a member have an answer; they are not rewritten. A capability "
        "promises more than one member, and a member may be there that means nothing: for "
        f"{alike} of these gates every object answers to the capability, or to the traits, as it "
        "does to `hasattr`. For the others a person has to see whether the objects named here get "
        "to the gate, and whether their member is in use."
    )
    yield ""
    yield "| gates | asked | answered by | has the member, and is another | is such, and lacks it |"
    yield "| ---: | --- | --- | --- | --- |"
    for row in rows:
        more, less = (_names(row, cell) for cell in ("yes, now no", "no, now yes"))
        yield f"| {row['gates']} | `{row['asked']}` | `{row['asks now']}` | {more} | {less} |"


def _names(row: Mapping[str, str], cell: str) -> str:
    return ", ".join(dict.fromkeys(_class_of(n) for n, c in _answers(row).items() if c == cell))


def _objects(rows: list[dict[str, str]], profile: Profile) -> Iterator[str]:
    built = Counter(_class_of(name) for name in _answers(rows[0]))
    known = [name for name in sorted(profile.classes) if name in built]
    yield "## Objects"
    yield ""
    yield f"Of the {len(profile.classes)} classes that the profile knows {len(known)} were built:"
    yield ""
    yield ", ".join(f"{name} ({built[name]})" if built[name] > 1 else name for name in known) + "."
    yield ""
    yield "Asked beside them: " + ", ".join(n for n in built if n not in profile.classes) + "."
    yield ""
    yield "| not built | why |"
    yield "| --- | --- |"
    yield from (f"| {name} | {why} |" for name, why in NOT_BUILT.items())


def asked_of(
    python: str, questions: Iterable[Question], modules: list[str], *folder: str
) -> dict[str, Any]:
    """What sglang's objects answer; `folder` has another sglang."""
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "asked.json"
        told = {"questions": [each.as_json() for each in questions], "modules": modules}
        file.write_text(json.dumps(told))
        module = "tests.interop.gates.equivalence"
        return report.answers_of(python, module, str(file), *folder, seconds=550)


def main() -> None:
    profile = load_profile("sglang")
    match sys.argv[1:]:
        case ["--write"]:
            DATA.write_text(as_csv(_measured(profile)))
        case ["--page"]:
            pass
        case _:
            raise SystemExit(__doc__)
    rows = list(csv.DictReader(io.StringIO(DATA.read_text())))
    PAGE.write_text(rendered(rows, profile))


def _measured(profile: Profile) -> list[dict[str, str]]:
    python = make_venv.usable_python()
    if python is None:
        raise SystemExit(f"did not run: {make_venv.cannot_run() or make_venv.not_built()}")
    (tree,) = (Path(python).parents[1] / "lib").glob("python3.*/site-packages/sglang/srt")
    gates = scan(tree, profile).gates
    asked = questions_of(gates, profile) | members_of(gates, profile)
    return rows_of(asked_of(python, asked, []), asked)


if __name__ == "__main__":
    main()
