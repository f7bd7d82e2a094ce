"""A tree is rewritten as a patch, as a copy, or in place: whole, or not at all."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from kvproto._bad_input import BadInput
from kvproto.cli import main
from kvproto.gates import Profile
from kvproto.gates.rewrite_tree import rewrite_tree
from kvproto.gates.write_tree import patch_of, write_in_place
from tests.gates.small_profile import TOML

FILES = {
    "a.py": "from engine.pools import Pair\n\nok = isinstance(p, Pair)",  # no newline at the end
    "b.py": "from engine.a import Pair\nfrom engine.pools import Spec\r\nisinstance(p, Pair)\r\n",
    "deep/c.py": "from engine.pools import Heads\nisinstance(p, Heads)\n",
    "deep/d.py": "import engine.deep.c as c\nc.Heads\n",
    "deep/e.py": "from engine.pools import Latent, Spec\nisinstance(p, (Latent, Spec))\n",
    "notes.txt": "isinstance(p, Pair)\n",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Three files with something to rewrite."""
    (tmp_path / "engine.toml").write_text(TOML)
    for name, text in FILES.items():
        file = tmp_path / "engine" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())
    return tmp_path / "engine"


def texts(top: Path) -> dict[str, bytes]:
    return {f.relative_to(top).as_posix(): f.read_bytes() for f in top.rglob("*") if f.is_file()}


def run(tree: Path, *more: str) -> int:
    return main(["gates", str(tree), "--profile", str(tree.parent / "engine.toml"), *more])


def test_only_what_nobody_imports_from_a_module_is_taken_out(tree: Path, engine: Profile) -> None:
    after = {file.file: file.after.decode() for file in rewrite_tree(tree, engine).changed}
    assert "from engine.pools import Pair" in after["a.py"]  # b.py imports it from there
    assert "import Pair" not in after["b.py"]
    assert "from engine.pools import Heads" in after["deep/c.py"]  # d.py reads it from there
    assert sorted(after) == ["a.py", "b.py", "deep/c.py"]


def test_a_patch_is_what_git_applies(tree: Path, engine: Profile) -> None:
    rewritten = rewrite_tree(tree, engine)
    patch = b"".join(patch_of(rewritten))
    subprocess.run(["git", "apply", "--unsafe-paths", "-"], cwd=tree, input=patch, check=True)
    after = {file.file: file.after for file in rewritten.changed}
    assert texts(tree) == {name: text.encode() for name, text in FILES.items()} | after


NAMES = [
    b"with space.py",
    b"caf\xc3\xa9.py",
    b"\xff.py",
    b"a\ttab.py",
    b'"quoted".py',
    b"back\\.py",
]


def test_a_patch_names_any_file(tree: Path, engine: Profile) -> None:
    for name in NAMES:
        (tree / os.fsdecode(name)).write_text(FILES["deep/c.py"])
    patch = b"".join(patch_of(rewrite_tree(tree, engine)))
    subprocess.run(["git", "apply", "--unsafe-paths", "-"], cwd=tree, input=patch, check=True)
    for name in NAMES:
        assert b"MHARows" in (tree / os.fsdecode(name)).read_bytes()


def test_the_patch_alone_is_on_stdout(
    tree: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert run(tree, "--diff") == 0
    told = capfdbinary.readouterr()
    assert told.out.startswith(b"--- a/a.py\n+++ b/a.py\n")
    assert b"left: deep/e.py:2: Latent | Spec: plain data" in told.err
    assert b"3 of 4 gates on classes rewritten (75.0%) in 3 files; 1 left" in told.err
    assert texts(tree) == {name: text.encode() for name, text in FILES.items()}


def test_a_copy_is_the_whole_tree(tree: Path, engine: Profile) -> None:
    after = {file.file: file.after for file in rewrite_tree(tree, engine).changed}
    (tree / "__pycache__").mkdir()
    (tree / "link").symlink_to("notes.txt")
    copy = tree.parent / "copy"
    assert run(tree, "--apply", str(copy)) == 0
    assert os.readlink(copy / "link") == "notes.txt"
    (copy / "link").unlink()
    assert texts(copy) == {name: text.encode() for name, text in FILES.items()} | after
    assert not (copy / "__pycache__").exists()
    assert {f.name for f in tree.parent.iterdir()} == {"engine", "copy", "engine.toml"}
    again = rewrite_tree(copy, engine)
    assert (again.done, again.changed) == (0, [])


def test_in_place(tree: Path, engine: Profile) -> None:
    after = {file.file: file.after for file in rewrite_tree(tree, engine).changed}
    (tree / "a.py").chmod(0o755)
    assert run(tree, "--in-place") == 0
    assert texts(tree) == {name: text.encode() for name, text in FILES.items()} | after
    assert (tree / "a.py").stat().st_mode & 0o777 == 0o755


def test_of_a_link_the_file_it_leads_to_is_written(tree: Path, engine: Profile) -> None:
    (tree / "0.py").symlink_to("deep/../a.py")
    after = {file.file: file.after for file in rewrite_tree(tree, engine).changed}
    assert sorted(after) == ["a.py", "b.py", "deep/c.py"]
    assert run(tree, "--in-place") == 0
    assert os.readlink(tree / "0.py") == "deep/../a.py"
    assert (tree / "a.py").read_bytes() == after["a.py"]


def test_what_is_imported_from_a_link_stays_in_its_file(tree: Path, engine: Profile) -> None:
    (tree / "0.py").symlink_to("a.py")
    (tree / "b.py").write_text("from engine.0 import Pair\n")
    (after,) = (f.after for f in rewrite_tree(tree, engine).changed if f.file == "a.py")
    assert after.startswith(b"from engine.pools import Pair\n")


@pytest.mark.parametrize("linked", ["symlink_to", "hardlink_to"])
def test_a_patch_is_what_git_applies_where_files_are_linked(
    tree: Path, linked: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    link = tree / "0.py"
    link.symlink_to("a.py") if linked == "symlink_to" else link.hardlink_to(tree / "a.py")
    assert run(tree, "--diff") == 0
    told = capfdbinary.readouterr()
    subprocess.run(["git", "apply", "--unsafe-paths", "-"], cwd=tree, input=told.out, check=True)
    assert link.is_symlink() is (linked == "symlink_to")
    assert b"SWAComposite" in (tree / "a.py").read_bytes()
    assert link.read_bytes() == (tree / "a.py").read_bytes()
    gates = (3, 4) if linked == "symlink_to" else (4, 5)
    assert f"{gates[0]} of {gates[1]} gates on classes rewritten".encode() in told.err


@pytest.mark.parametrize("option", ["--in-place", "--diff"])
def test_a_link_out_of_the_tree_stops_all(
    tree: Path, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    outside = tree.parent / "outside.py"
    outside.write_text(FILES["a.py"])
    (tree / "z.py").symlink_to(outside)
    before = texts(tree.parent)
    assert run(tree, option) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert f"{option}: z.py is a link to {outside}, which is not among" in told.err
    assert texts(tree.parent) == before


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("target", ["a.py", "../engine/a.py", "../outside.py"])
def test_a_copy_does_not_write_through_links(tree: Path, target: str, whole: bool) -> None:
    (tree.parent / "outside.py").write_text(FILES["a.py"])
    (tree / "z.py").symlink_to((tree / target).resolve() if whole else target)
    (tree / "sub").symlink_to(tree / "deep")
    before = texts(tree.parent)
    assert run(tree, "--apply", str(tree.parent / "copy")) == 0
    after = texts(tree.parent)
    assert os.readlink(tree.parent / "copy" / "sub") == "deep"
    assert (tree.parent / "copy" / "z.py").is_symlink() is (target != "../outside.py")
    assert b"SWAComposite" in after.pop("copy/z.py")
    assert {name: text for name, text in after.items() if not name.startswith("copy/")} == before


def test_a_file_that_changed_meanwhile_stops_all(tree: Path, engine: Profile) -> None:
    rewritten = rewrite_tree(tree, engine)
    (tree / "deep" / "c.py").write_text("changed\n")
    before = texts(tree)
    with pytest.raises(BadInput, match=r"deep/c\.py was changed meanwhile: nothing was written"):
        write_in_place(rewritten)
    assert texts(tree) == before


def test_what_cannot_be_parsed_stays_and_is_named(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / "broken.py").write_text("from engine.pools import Pair\nisinstance(p, Pair\n")
    assert run(tree, "--in-place") == 1
    assert "not read: broken.py: line 2" in capsys.readouterr().out
    assert (tree / "broken.py").read_text().endswith("isinstance(p, Pair\n")


@pytest.mark.parametrize(
    ("more", "line"),
    [
        (["--apply", "engine"], "is there already"),
        (["--apply", "engine/deep/copy"], "lies in"),
        (["--apply", "no/such/folder"], "there is no folder no/such; make it first"),
        (["--apply", "engine.toml/copy"], "there is no folder engine.toml; make it first"),
        (["--diff", "--max", "3"], "--json, --list and --max are of a scan"),
    ],
)
def test_bad_input(
    tree: Path,
    more: list[str],
    line: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tree.parent)
    before = texts(tree.parent)
    assert run(tree, *more) == 2
    assert line in capsys.readouterr().err
    assert texts(tree.parent) == before
