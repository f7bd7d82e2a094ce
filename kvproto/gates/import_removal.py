"""Takes names out of one `from ... import ...`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from .source_text import Edit, SourceText

__all__ = ["without_aliases"]

_BLANK = re.compile(r"[ \t]*(?:\r\n|\r|\n)")
_ALONE = re.compile(r"[ \t]*\w+(?:[ \t]+as[ \t]+\w+)?[ \t]*,?[ \t]*(?:#[^\r\n]*)?(?:\r\n|\r|\n)?")


def without_aliases(
    module: ast.Module, node: ast.ImportFrom, names: set[str], source: SourceText
) -> list[Edit]:
    """The edits that take the names (as they are bound) out; none where that is not simple."""
    kept = [alias for alias in node.names if (alias.asname or alias.name) not in names]
    _, _, written = _lines(node, source)
    # Another statement in these lines, or the head of a block before it, would go with them.
    if ";" in written or "\\" in written or not written.lstrip().startswith("from"):
        return []
    if not kept:
        return [_whole(module, node, source)]
    if node.lineno == (node.end_lineno or node.lineno):
        return _in_one_line(node, kept, source)
    return list(_line_by_line(node, names, source))


def _whole(module: ast.Module, node: ast.ImportFrom, source: SourceText) -> Edit:
    start, end, written = _lines(node, source)
    block = next(block for block in _blocks(module) if node in block)
    if len(block) > 1:
        # A function's imports are set apart by a blank line, which goes with them.
        first = block[0] is node and block is not module.body
        blank = _BLANK.match(source.text, end) if first else None
        return Edit(start, blank.end() if blank else end, "")
    indent = written[: len(written) - len(written.lstrip())]
    newline = written[len(written.rstrip("\r\n")) :]
    return Edit(start, end, f"{indent}pass{newline}")


def _in_one_line(node: ast.ImportFrom, kept: list[ast.alias], source: SourceText) -> list[Edit]:
    first, last = node.names[0], node.names[-1]
    start = source.offset(first.lineno, first.col_offset)
    end = source.offset(last.end_lineno or last.lineno, last.end_col_offset or 0)
    listed = ", ".join(f"{a.name} as {a.asname}" if a.asname else a.name for a in kept)
    return [Edit(start, end, listed)]


def _line_by_line(node: ast.ImportFrom, names: set[str], source: SourceText) -> Iterator[Edit]:
    for alias in node.names:
        start, line = source.line_of(alias.lineno)
        if (alias.asname or alias.name) in names and _ALONE.fullmatch(line):
            yield Edit(start, start + len(line), "")


def _lines(node: ast.ImportFrom, source: SourceText) -> tuple[int, int, str]:
    start, _ = source.line_of(node.lineno)
    last, line = source.line_of(node.end_lineno or node.lineno)
    return start, last + len(line), source.text[start : last + len(line)]


def _blocks(module: ast.Module) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(module):
        for _, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                yield value
