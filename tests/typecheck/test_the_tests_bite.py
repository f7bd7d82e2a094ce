"""Weaken a protocol, and the file in `typecheck/fail/` that guards it must say so.

Each mutant is a copy of the protocols under a name of its own, so that one run of a checker
covers all of them and torch is read once.
"""

from __future__ import annotations

import ast
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.typecheck.checking import REPOSITORY, Complaint, complaints

PROTOCOLS = REPOSITORY / "kvproto" / "protocols"


@dataclass(frozen=True)
class Mutant:
    """A member deleted from a protocol, and the file that must notice."""

    module: str
    protocol: str
    member: str
    guard: str
    mypy_sees_it: bool = True
    """False where mypy refuses nothing and so has no ignore: it compares no parameter names."""

    @property
    def name(self) -> str:
        return f"without_{self.member}_{self.guard}"


MUTANTS = [
    Mutant("leaf", "KVLeaf", "store_dtype", "missing_data_member"),
    Mutant("leaf", "KVPool", "set_kv_buffer", "narrower_argument"),
    Mutant("host_copy", "HostCopyable", "get_cpu_copy", "missing_keyword"),
    Mutant("host_copy", "HostCopyable", "get_cpu_copy", "missing_default"),
    Mutant("host_copy", "HostCopyable", "get_cpu_copy", "renamed_keyword", mypy_sees_it=False),
    Mutant("movable", "Movable", "move_kv_cache", "extra_argument"),
    Mutant("movable", "Movable", "move_kv_cache", "async_for_sync"),
    Mutant("movable", "Movable", "move_kv_cache", "opted_out"),
    Mutant("transferable", "Transferable", "get_contiguous_buf_infos", "wrong_return"),
    Mutant("transferable", "Transferable", "page_size", "wrong_data_type"),
    Mutant("transferable", "Transferable", "page_size", "method_for_data"),
]

UNUSED = {"mypy": "unused-ignore", "pyright": "reportUnnecessaryTypeIgnoreComment"}


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("mutants")
    for mutant in MUTANTS:
        package = directory / mutant.name
        shutil.copytree(PROTOCOLS, package, ignore=shutil.ignore_patterns("__pycache__"))
        _delete_member(package / f"{mutant.module}.py", mutant)
        guard = (REPOSITORY / "typecheck" / "fail" / f"{mutant.guard}.py").read_text()
        copy = directory / "fail" / f"{mutant.name}.py"
        copy.parent.mkdir(exist_ok=True)
        copy.write_text(guard.replace("kvproto.protocols", mutant.name))
    return directory


@pytest.fixture(scope="module", params=["mypy", "pyright"])
def complaining(request: pytest.FixtureRequest, workshop: Path) -> tuple[str, list[Complaint]]:
    checker: str = request.param
    return checker, complaints(checker, ["fail"], workshop)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_is_noticed(complaining: tuple[str, list[Complaint]], mutant: Mutant) -> None:
    checker, found = complaining
    codes = {complaint.code for complaint in found if complaint.file.stem == mutant.name}
    assert (UNUSED[checker] in codes) is (checker == "pyright" or mutant.mypy_sees_it)


def _delete_member(file: Path, mutant: Mutant) -> None:
    source = file.read_text()
    lines = source.splitlines()
    for cls in ast.parse(source).body:
        if not isinstance(cls, ast.ClassDef) or cls.name != mutant.protocol:
            continue
        for member in cls.body:
            if isinstance(member, ast.FunctionDef) and member.name == mutant.member:
                first = min([member.lineno, *(d.lineno for d in member.decorator_list)])
                file.write_text("\n".join(lines[: first - 1] + lines[member.end_lineno :]))
                return
    raise LookupError(f"{file.name} has no {mutant.protocol}.{mutant.member}: renamed?")
