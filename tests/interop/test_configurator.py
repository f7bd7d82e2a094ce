"""The pages about sglang's configurator have each function of its module, and each branch."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "configurator.md").read_text()
BRANCHES = (DOCS / "configurator-branches.md").read_text()
ROWS = [line.split(" | ") for line in PAGE.splitlines() if line.startswith("| `")]


def functions(python: str) -> dict[str, ast.FunctionDef]:
    (module,) = (Path(python).parents[1] / "lib").glob(
        "python3*/site-packages/sglang/srt/mem_cache/kv_cache_configurator.py"
    )
    tree = ast.parse(module.read_text())
    bodies = [tree.body] + [n.body for n in tree.body if isinstance(n, ast.ClassDef)]
    return {n.name: n for body in bodies for n in body if isinstance(n, ast.FunctionDef)}


def decisions(function: ast.FunctionDef) -> list[int]:
    """The lines on which it chooses, or insists."""
    kinds = (ast.If, ast.IfExp, ast.Match, ast.Assert)
    return sorted(node.lineno for node in ast.walk(function) if isinstance(node, kinds))


def lines_by_function() -> dict[str, list[int]]:
    """The lines in each section of the page, in order."""
    found: dict[str, list[int]] = {}
    for section in BRANCHES.split("\n### ")[1:]:
        name = section.split("`")[1]
        assert name not in found
        cells = [line.split(" | ")[0] for line in section.splitlines() if line.startswith("| ")]
        found[name] = sorted(int(number) for cell in cells for number in re.findall(r"\d+", cell))
    return found


def test_every_function_has_a_row(interop_python: str) -> None:
    named = [name for row in ROWS for name in re.findall(r"`(\w+)`", row[0])]
    assert len(named) == len(set(named))
    assert set(named) == set(functions(interop_python))


def test_every_branch_has_its_line(interop_python: str) -> None:
    theirs = {name: decisions(each) for name, each in functions(interop_python).items()}
    assert lines_by_function() == {name: lines for name, lines in theirs.items() if lines}


def test_no_row_is_without_its_place() -> None:
    rows = [line.split(" | ") for line in BRANCHES.splitlines() if re.match(r"\| \d", line)]
    assert all(len(row) == 3 for row in rows)
    said = re.compile(
        r"`kvproto\.|^nowhere: |^later: |the subsystem `|a platform declines|is a part of"
    )
    assert [row[2] for row in rows if not said.search(row[2])] == []


def test_every_name_of_ours_is_there() -> None:
    for name in re.findall(r"`(kvproto\.[\w.]+)`", PAGE + BRANCHES):
        *parents, last = name.split(".")
        try:
            importlib.import_module(name)
        except ModuleNotFoundError:
            owner: object = importlib.import_module(".".join(parents[:2]))
            for part in [*parents[2:], last]:
                owner = getattr(owner, part)
