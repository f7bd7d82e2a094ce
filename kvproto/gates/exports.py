"""Which names a module of a tree may be asked for by another, told from the text of the tree."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

__all__ = ["Exports", "exports_of"]

_FROM = re.compile(rb"\bfrom\s+([\w.]+)\s+import\s+(\([^)]*\)|[^\r\n]*(?:\\\r?\n[^\r\n]*)*)")
_WORD = re.compile(rb"\w+")


@dataclass(frozen=True, slots=True)
class Exports:
    """Errs on the side of saying that a name is asked for.

    Modules are known by their last name, a package by that of its folder, and by those of links to
    them. Names that the text was not searched for are taken to be asked for everywhere.
    """

    searched: frozenset[str]
    imported: frozenset[tuple[str, str]]
    """(module, name) of `from module import name`; the name `*` stands for all of them."""
    read: frozenset[tuple[str, str]]
    """(word, name) of `word.name`."""
    modules: frozenset[str]
    links: dict[tuple[int, int], frozenset[str]]
    """The modules that one file is, where it has several names."""

    def may_be_imported(self, file: str, name: str) -> bool:
        """Whether another file may import the name from this one, or read it as an attribute."""
        modules = {_module(file)}
        if self.links:
            modules |= self.links.get(_inode(Path(file)), frozenset())
        return name not in self.searched or any(self._asked(file, m, name) for m in modules)

    def _asked(self, file: str, module: str, name: str) -> bool:
        if {(module, name), (module, "*")} & self.imported:
            return True
        if module == PurePosixPath(file).parent.name and ("", name) in self.imported:
            return True
        return any(n == name and (w == module or w not in self.modules) for w, n in self.read)


def exports_of(files: Iterable[Path], names: Iterable[str]) -> Exports:
    """Search the files for the names; one that cannot be read says nothing."""
    searched = frozenset(names)
    attribute = re.compile(
        rb"(\w+)\s*\.\s*(" + b"|".join(re.escape(name.encode()) for name in searched) + rb")\b"
    )
    imported: set[tuple[str, str]] = set()
    read: set[tuple[str, str]] = set()
    modules: set[str] = set()
    named: dict[tuple[int, int], set[str]] = {}
    for file in files:
        modules.add(_module(file.as_posix()))
        try:
            text = file.read_bytes()
            named.setdefault(_inode(file), set()).add(_module(file.as_posix()))
        except OSError:
            continue
        names_one = any(name.encode() in text for name in searched)
        if names_one or b"import *" in text:
            imported.update(_imported(text, searched))
        if names_one:
            read.update((w.decode(), n.decode()) for w, n in attribute.findall(text))
    links = {inode: frozenset(several) for inode, several in named.items() if len(several) > 1}
    return Exports(searched, frozenset(imported), frozenset(read), frozenset(modules), links)


def _imported(text: bytes, searched: frozenset[str]) -> Iterable[tuple[str, str]]:
    for module, names in _FROM.findall(text):
        last = module.decode().rpartition(".")[2]
        if b"*" in names:
            yield last, "*"
        for word in _WORD.findall(names):
            if word.decode() in searched:
                yield last, word.decode()


def _inode(file: Path) -> tuple[int, int]:
    """What all links to a file, hard and symbolic, have in common."""
    told = os.stat(file)
    return told.st_dev, told.st_ino


def _module(file: str) -> str:
    path = PurePosixPath(file)
    return path.parent.name if path.name == "__init__.py" else path.stem
