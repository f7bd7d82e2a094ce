"""What installing and importing the package gives, and what it leaves alone."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import kvproto

REPOSITORY = Path(__file__).parents[1]
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
BIN = Path(sys.executable).parent
OPTIONAL = {"triton", "beartype", "pytest", "hypothesis", "libcst", "rich", "sglang"} | {
    "msgspec",
    "nixl_cu12",
}


def imported_by(statement: str) -> set[str]:
    """The packages that are loaded after a statement, in a fresh interpreter."""
    show = "import sys; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", f"{statement}; {show}"], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


@pytest.mark.parametrize("module", ["kvproto", "kvproto.protocols"])
def test_the_contracts_need_no_torch(module: str) -> None:
    loaded = imported_by(f"import {module}")
    assert not loaded & (OPTIONAL | {"torch", "numpy"})


@pytest.mark.parametrize(
    "module",
    ["kvproto.kernels", "kvproto.reference", "kvproto.cli", "kvproto.typecheck", "kvproto.gates"],
)
def test_optional_packages_stay_optional(module: str) -> None:
    assert not imported_by(f"import {module}") & OPTIONAL


def test_the_kit_moves_pages_without_the_transfer_extra() -> None:
    """But for numpy, which comes with the extra that the kit has."""
    assert not imported_by("import kvproto.conformance.laws") & {"msgspec", "nixl_cu12", "nixl"}


def test_operations_in_host_memory_load_no_triton() -> None:
    store = (
        "import torch, kvproto.kernels as k; rows = torch.ones(40, 2); loc = torch.arange(40);"
        "k.store_rows(torch.zeros(41, 2), loc, rows); k.gather_rows(rows, loc);"
        "k.move_row_sets([rows], loc, loc)"
    )
    assert "triton" not in imported_by(store)


def test_asking_needs_no_torch() -> None:
    ask = "import kvproto.protocols as p; assert not p.supports(object(), p.KVLeaf)"
    assert "torch" not in imported_by(ask)


@pytest.mark.parametrize(
    "file", sorted((REPOSITORY / "kvproto" / "protocols").rglob("*.py")), ids=lambda f: f.name
)
def test_the_contracts_import_nothing_else_of_ours(file: Path) -> None:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level <= 1
            assert not (node.module or "").startswith("kvproto")
        if isinstance(node, ast.Import):
            assert not any(alias.name.startswith("kvproto") for alias in node.names)


def test_the_version_is_that_of_the_installed_package() -> None:
    assert kvproto.__version__ == metadata.version("kvproto")


def test_types_are_shipped() -> None:
    assert (Path(kvproto.__file__).parent / "py.typed").is_file()


def test_only_torch_and_typing_extensions_are_required() -> None:
    required = [r for r in metadata.requires("kvproto") or () if "extra ==" not in r]
    assert {name_of(r) for r in required} == {"torch", "typing-extensions"}


def test_extras() -> None:
    provided = set(metadata.metadata("kvproto").get_all("Provides-Extra") or ())
    assert provided >= {"debug", "triton", "check", "gates", "transfer", "typecheck", "dev"}


def test_entry_points_load() -> None:
    ours = metadata.distribution("kvproto").entry_points
    assert {(e.group, e.name) for e in ours} == {
        ("console_scripts", "kvproto"),
        ("kvproto.capabilities", "cpu"),
        ("kvproto.capabilities", "cuda"),
        ("kvproto.capabilities", "musa"),
        ("kvproto.capabilities", "npu"),
        ("kvproto.capabilities", "rocm-gfx942"),
        ("kvproto.capabilities", "rocm-gfx950"),
        ("kvproto.on_cpu", "cpu"),
        ("kvproto.on_cpu", "cuda"),
        ("kvproto.on_cpu", "musa"),
        ("kvproto.on_cpu", "npu"),
        ("kvproto.on_cpu", "rocm-gfx942"),
        ("kvproto.on_cpu", "rocm-gfx950"),
        ("kvproto.platforms", "cpu"),
        ("kvproto.platforms", "cuda"),
        ("kvproto.platforms", "musa"),
        ("kvproto.platforms", "npu"),
        ("kvproto.platforms", "rocm"),
        ("pytest11", "kvproto"),
        ("sglang.srt.platforms", "kvproto"),
        ("sglang.srt.plugins", "kvproto_accounts"),
        ("sglang.srt.plugins", "kvproto_composites"),
    }
    for entry in ours:
        entry.load()


def test_the_console_script_explains_itself() -> None:
    done = subprocess.run(
        [str(BIN / "kvproto"), "--help"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    assert "check" in done.stdout
    assert "typecheck" in done.stdout


def test_the_typecheck_command_is_wired() -> None:
    command = [str(BIN / "kvproto"), "typecheck", "kvproto.protocols:KVLeaf"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("kvproto typecheck: kvproto.protocols:KVLeaf is a protocol")


def test_what_is_installed_is_what_is_pinned() -> None:
    """Otherwise `constraints.txt` describes another environment than the one that was tested."""
    lines = (REPOSITORY / "constraints.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    for name, version in pins.items():
        assert metadata.version(name).partition("+")[0] == version, name


def test_dev_requirements_are_pinned() -> None:
    text = (REPOSITORY / "constraints.txt").read_text().lower().replace("_", "-")
    wanted = [
        *PROJECT["project"]["dependencies"],
        *PROJECT["project"]["optional-dependencies"]["dev"],
    ]
    missing = [name_of(w) for w in wanted if f"\n{name_of(w)}==" not in text]
    assert missing == ["kvproto"]
    assert "\ntriton==" in text  # by way of an extra of our own


def test_ci_runs_make_test_and_nothing_else() -> None:
    script = REPOSITORY / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    commands = [line for line in script.read_text().splitlines() if not line.startswith("#")]
    assert commands == ["set -euo pipefail", 'cd "$(dirname "$0")/.."', "exec make test"]


def name_of(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    if found is None:
        raise ValueError(requirement)
    return found[0].lower().replace("_", "-")
