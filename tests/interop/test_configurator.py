"""The page about sglang's configurator has a row for each function of its module."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "configurator.md").read_text()
ROWS = [line.split(" | ") for line in PAGE.splitlines() if line.startswith("| `")]


def functions(python: str) -> set[str]:
    (module,) = (Path(python).parents[1] / "lib").glob(
        "python3*/site-packages/sglang/srt/mem_cache/kv_cache_configurator.py"
    )
    tree = ast.parse(module.read_text())
    bodies = [tree.body] + [n.body for n in tree.body if isinstance(n, ast.ClassDef)]
    return {n.name for body in bodies for n in body if isinstance(n, ast.FunctionDef)}


def test_every_function_has_a_row(interop_python: str) -> None:
    named = [name for row in ROWS for name in re.findall(r"`(\w+)`", row[0])]
    assert len(named) == len(set(named))
    assert set(named) == functions(interop_python)


def test_every_name_of_ours_is_there() -> None:
    for name in re.findall(r"`(kvproto\.[\w.]+)`", PAGE):
        *parents, last = name.split(".")
        try:
            importlib.import_module(name)
        except ModuleNotFoundError:
            owner: object = importlib.import_module(".".join(parents[:2]))
            for part in [*parents[2:], last]:
                owner = getattr(owner, part)
