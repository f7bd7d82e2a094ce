"""A table of a TOML file that knows where it is, so that its mistakes can be named."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import cast

from kvproto._bad_input import BadInput

__all__ = ["Table"]


class Table:
    """One table: `where` is its file, `path` its dotted key ("" for the whole file)."""

    def __init__(self, where: str, path: str, values: Mapping[str, object]) -> None:
        self._where = where
        self._path = path
        self._values = values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def only(self, allowed: Collection[str]) -> None:
        """:raises BadInput: for the first key that is not among those allowed."""
        for key in self._values:
            if key not in allowed:
                raise self.wrong(key, f"no such key; there is {', '.join(sorted(allowed))}")

    def without(self, keys: Collection[str]) -> Table:
        """The same table without some keys."""
        left = {key: value for key, value in self._values.items() if key not in keys}
        return Table(self._where, self._path, left)

    def text(self, key: str) -> str:
        """:raises BadInput: where it is missing, empty, or no string."""
        value = self._values.get(key)
        if not isinstance(value, str) or not value:
            there = key in self._values
            raise self.wrong(key, "must be a string, not empty" if there else "is missing")
        return value

    def dotted(self, key: str) -> str:
        """:raises BadInput: where it is no `package.module`."""
        name = self.text(key)
        if not all(part.isidentifier() for part in name.split(".")):
            raise self.wrong(key, f"{name!r} is no module: package.module")
        return name

    def texts(self, key: str) -> list[str]:
        """A list of strings, or one string for a list of one; empty where it is missing."""
        value = self._values.get(key, [])
        listed = cast("list[object]", value) if isinstance(value, list) else [value]
        if not all(isinstance(item, str) and item for item in listed):
            raise self.wrong(key, "must be a string or a list of strings")
        return cast("list[str]", listed)

    def named(self, key: str) -> list[tuple[str, Table]]:
        """The tables below the table of a key, each with its name."""
        parent = self.table(key)
        return [(name, parent.table(name)) for name in parent]

    def table(self, key: str) -> Table:
        """The table below a key; empty where it is missing."""
        value = self._values.get(key, {})
        if not isinstance(value, dict):
            raise self.wrong(key, "must be a table")
        return Table(self._where, self._name(key), cast("dict[str, object]", value))

    def tables(self, key: str) -> list[Table]:
        """The tables of a list of tables; none where it is missing."""
        value = self._values.get(key, [])
        listed = cast("list[object]", value) if isinstance(value, list) else [None]
        if not all(isinstance(item, dict) for item in listed):
            raise self.wrong(key, f"must be a list of tables: [[{self._name(key)}]]")
        return [
            Table(self._where, f"{self._name(key)}[{number}]", cast("dict[str, object]", item))
            for number, item in enumerate(listed)
        ]

    def wrong(self, key: str, what: str) -> BadInput:
        """The error for one key of this table ("" for the table itself)."""
        return BadInput(f"{self._where}: {self._name(key)}: {what}")

    def _name(self, key: str) -> str:
        return ".".join(part for part in (self._path, key) if part)
