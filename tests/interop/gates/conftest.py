"""One scan of the real sglang serves all tests here."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from kvproto.gates import Profile, Scan, load_profile, scan
from kvproto.gates.exports import exports_of
from kvproto.gates.rewrite import rewrite
from kvproto.gates.rewrite_tree import Tree
from kvproto.gates.scan import python_files


@pytest.fixture(scope="session")
def sglang_srt(interop_python: str) -> Path:
    """The folder that the census was taken of."""
    lib = Path(interop_python).parents[1] / "lib"
    (package,) = lib.glob("python3.*/site-packages/sglang/srt")
    return package


@pytest.fixture(scope="session")
def sglang() -> Profile:
    """What is known of sglang."""
    return load_profile("sglang")


@pytest.fixture(scope="session")
def scanned(sglang_srt: Path, sglang: Profile) -> Scan:
    """Every gate in it."""
    return scan(sglang_srt, sglang)


@pytest.fixture(scope="session")
def rewritten(sglang_srt: Path, sglang: Profile, scanned: Scan) -> Tree:
    """What `rewrite_tree` makes of the whole, which does not look again where no gate was found."""
    exports = exports_of(python_files(sglang_srt), sglang.exportable)
    holding = sorted({gate.file for gate in scanned.gates if gate.classes})
    files = [
        rewrite((sglang_srt / f).read_bytes(), f, sglang, partial(exports.may_be_imported, f))
        for f in holding
    ]
    return Tree(root=sglang_srt, files=tuple(files), unread={})
