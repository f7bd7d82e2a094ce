"""A scan as JSON, for tools."""

from __future__ import annotations

import json
from pathlib import Path

from kvproto._bad_input import BadInput

from .answers import words
from .gate import Gate
from .profile import Profile
from .scan import Scan
from .summary import by_answer, by_class, by_file, by_verdict, class_gates_of

__all__ = ["as_json", "check_writable", "write_json"]


def check_writable(file: Path) -> None:
    """:raises BadInput: where there cannot be such a file."""
    if file.is_dir() or not file.absolute().parent.is_dir():
        what = "is a folder" if file.is_dir() else f"there is no folder {file.parent}"
        raise BadInput(f"--json {file}: cannot be written: {what}")


def write_json(found: Scan, profile: Profile, file: Path) -> None:
    """Write `as_json`, whole or not at all.

    :raises BadInput: where the file cannot be written.
    """
    beside = file.with_name(f".{file.name}.part")
    try:
        beside.write_text(json.dumps(as_json(found, profile), indent=1) + "\n", "utf-8")
        beside.replace(file)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise BadInput(f"--json {file}: cannot be written: {error}") from None


def as_json(found: Scan, profile: Profile) -> dict[str, object]:
    """The gates in the order of files and lines, and their counts."""
    answers = by_answer(found.gates).most_common()
    return {
        "profile": profile.name,
        "covers": profile.covers,
        "root": found.root,
        "files": found.files,
        "unread": dict(sorted(found.unread.items())),
        "counts": {
            "gates": len(found.gates),
            "on classes": len(class_gates_of(found.gates)),
            "by verdict": dict(sorted(by_verdict(found.gates).items())),
            "by question": [
                {"asks": asks, "answer": answer, "gates": count}
                for (asks, answer), count in answers
            ],
            "by class": dict(by_class(found.gates).most_common()),
            "by file": dict(by_file(found.gates).most_common()),
        },
        "gates": [_gate(gate) for gate in found.gates],
    }


def _gate(gate: Gate) -> dict[str, object]:
    return {
        "file": gate.file,
        "line": gate.line,
        "column": gate.column,
        "kind": gate.kind,
        "scope": gate.scope,
        "operand": gate.operand,
        "classes": list(gate.classes),
        "attribute": gate.attribute,
        "asserted": gate.asserted,
        "typing only": gate.typing_only,
        "hot": gate.hot,
        "asks": gate.asks,
        "answer": words(gate.answer),
        "verdict": gate.verdict,
        "why": gate.why,
    }
