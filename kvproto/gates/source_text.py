"""A Python file as text, and edits of it that leave every other byte as it was."""

from __future__ import annotations

import ast
import codecs
import io
import re
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

__all__ = ["Edit", "SourceText"]

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """Characters `start` to `end` become `text`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class SourceText:
    """The text of a file under the encoding that it declares.

    Positions are those of `ast`: lines from 1, columns in bytes of UTF-8 from 0.
    """

    text: str
    encoding: str
    marked: bool = field(default=False)
    """Whether it begins with the byte order mark of UTF-8."""

    @classmethod
    def of(cls, source: bytes) -> SourceText:
        """:raises SyntaxError: for an encoding that is unknown, or is not that of the bytes."""
        marked = source.startswith(codecs.BOM_UTF8)
        encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
        name = "utf-8" if marked else encoding
        try:
            text = source[len(codecs.BOM_UTF8) if marked else 0 :].decode(name)
        except UnicodeDecodeError as error:
            raise SyntaxError(f"not {name}: {error}") from None
        return cls(text, name, marked)

    def encoded(self) -> bytes:
        """The file again."""
        return (codecs.BOM_UTF8 if self.marked else b"") + self.text.encode(self.encoding)

    def edited(self, edits: Sequence[Edit]) -> SourceText:
        """With edits made, all at once; those at one place in the order given.

        :raises ValueError: where two overlap.
        """
        parts: list[str] = []
        at = 0
        for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
            if edit.start < at:
                raise ValueError(f"edits overlap at character {edit.start}")
            parts += [self.text[at : edit.start], edit.text]
            at = edit.end
        return SourceText("".join([*parts, self.text[at:]]), self.encoding, self.marked)

    def offset(self, line: int, column: int) -> int:
        """The character at a position of `ast`."""
        start, text = self._lines[line - 1]
        if text.isascii():
            return start + column
        return start + len(text.encode()[:column].decode())

    def span(self, node: ast.expr | ast.pattern) -> tuple[int, int]:
        """The characters where a node begins and ends."""
        end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or 0
        return self.offset(node.lineno, node.col_offset), self.offset(end_line, end_column)

    def line_of(self, line: int) -> tuple[int, str]:
        """Where a line begins, and its text with its end."""
        return self._lines[line - 1]

    @cached_property
    def newline(self) -> str:
        """The end of its first line; `\\n` where there is none."""
        first = self._lines[0][1] if self._lines else ""
        return first[len(first.rstrip("\r\n")) :] or "\n"

    @cached_property
    def _lines(self) -> list[tuple[int, str]]:
        return [(found.start(), found.group()) for found in _LINE.finditer(self.text)]
