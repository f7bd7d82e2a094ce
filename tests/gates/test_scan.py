"""A tree is scanned whole; what cannot be read is named; the exit status says what happened."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kvproto.cli import main
from kvproto.gates import Profile, scan
from kvproto.gates.prefilter import Prefilter
from tests.gates.small_profile import TOML

USER = "from engine.pools import Pair, Latent, Spec\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Three gates in two of four files, one of them unreadable."""
    top = tmp_path / "engine"
    (top / "deep").mkdir(parents=True)
    (top / "a.py").write_text(USER + "isinstance(p, Pair)\nhasattr(pool, 'full_kv_pool')\n")
    (top / "deep" / "b.py").write_text(USER + "isinstance(p, Latent)\n")
    (top / "deep" / "c.py").write_text("x = 1\n")
    (top / "broken.py").write_text(USER + "isinstance(p, Pair\n")
    (top / "__pycache__").mkdir()
    (top / "__pycache__" / "d.py").write_text(USER + "isinstance(p, Pair)\n")
    (tmp_path / "engine.toml").write_text(TOML)
    return top


def run(tree: Path, *more: str) -> int:
    return main(["gates", str(tree), "--profile", str(tree.parent / "engine.toml"), *more])


def test_a_tree(tree: Path, engine: Profile) -> None:
    told: list[tuple[int, int]] = []
    found = scan(tree, engine, done=lambda done, of: told.append((done, of)))
    assert [(g.file, g.line) for g in found.gates] == [("a.py", 2), ("a.py", 3), ("deep/b.py", 2)]
    assert list(found.unread) == ["broken.py"]
    assert found.unread["broken.py"].startswith("line 2: ")
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert found.parsed == 2


def test_many_files_are_shared_between_processes(tree: Path, engine: Profile) -> None:
    for number in range(200):
        (tree / f"more{number:03}.py").write_text(USER + "isinstance(p, Pair)\n")
    found = scan(tree, engine)
    assert len(found.gates) == 203
    assert [g.file for g in found.gates if g.file.startswith("more")] == sorted(
        f"more{number:03}.py" for number in range(200)
    )


def test_one_file(tree: Path, engine: Profile) -> None:
    assert [g.file for g in scan(tree / "a.py", engine).gates] == ["a.py", "a.py"]


def test_a_file_that_cannot_be_read_is_named(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tree) == 1
    assert "not read: broken.py: line 2" in capsys.readouterr().out


def test_what_is_no_file_of_python_is_named_in_a_line_or_passed_over(
    tree: Path, engine: Profile
) -> None:
    os.mkfifo(tree / "pipe.py")
    (tree / "folder.py").mkdir()
    (tree / "loop.py").symlink_to("loop.py")
    (tree / "gone.py").symlink_to("nowhere.py")
    (tree / "zero.py").write_text(USER + "isinstance(p, Pair)\0\n")
    (tree / "latin.py").write_bytes(USER.encode() + b"'\xe9'\n")
    unread = scan(tree, engine).unread
    assert sorted(unread) == ["broken.py", "gone.py", "latin.py", "loop.py", "zero.py"]
    assert unread["latin.py"].startswith("line 2: (unicode error)")
    assert "null bytes" in unread["zero.py"]
    assert not any("\n" in why or "None" in why for why in unread.values())


def test_a_ratchet(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / "broken.py").unlink()
    assert run(tree) == 0
    assert run(tree, "--max", "3") == 0
    assert run(tree, "--max", "2") == 1
    assert "3 gates, more than --max 2" in capsys.readouterr().out


def test_json_has_every_gate_and_the_counts(tree: Path) -> None:
    file = tree.parent / "gates.json"
    run(tree, "--json", str(file))
    told = json.loads(file.read_text())
    subjects = [g["classes"] or g["attribute"] for g in told["gates"]]
    assert subjects == [["Pair"], "full_kv_pool", ["Latent"]]
    assert told["gates"][2]["verdict"] == "needs-trait"
    assert told["counts"]["by verdict"] == {"exact": 2, "needs-trait": 1}
    assert told["counts"]["by file"] == {"a.py": 2, "deep/b.py": 1}
    assert told["counts"]["by class"] == {"Pair": 1, "Latent": 1}
    assert list(told["unread"]) == ["broken.py"]


def test_the_list_says_what_each_asks(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(tree, "--list")
    told = capsys.readouterr().out
    assert "deep/b.py:2: isinstance p : Latent\n    is a token one latent row?\n" in told
    assert "    needs-trait: kind = mla or dsa\n" in told


@pytest.mark.parametrize(
    ("more", "line"),
    [
        (["--max", "-1"], "--max -1: must not be negative"),
        (["--profile", "nix"], "--profile nix: neither a profile"),
        (["--json", "/nowhere/a.json"], "cannot be written: there is no folder /nowhere\n"),
        (["--json", "/tmp"], "--json /tmp: cannot be written: is a folder\n"),
    ],
)
def test_bad_input(
    tree: Path, more: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tree, *more) == 2
    assert line in capsys.readouterr().err


def test_no_such_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gates", str(tmp_path / "nix")]) == 2
    assert "no such file or folder" in capsys.readouterr().err
    (tmp_path / "a.txt").touch()
    assert main(["gates", str(tmp_path)]) == 2
    assert f"{tmp_path}: there is no Python file in it" in capsys.readouterr().err


def test_a_folder_that_may_not_be_read_stops_all(
    tree: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = os.scandir

    def scandir(path: str) -> object:
        if str(path).endswith("deep"):
            raise PermissionError(13, "Permission denied", path)
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert run(tree) == 2
    assert f"kvproto: {tree}/deep: cannot be read: Permission denied\n" == capsys.readouterr().err


KEPT = [
    b"isinstance(p, Pair)",
    b"hasattr(pool, 'x')",
    b"getattr(f(a, 1).pool, 'x', None)",
    b"getattr (\n    # the pool, or none\n    pool, 'x', None)",
    b"try: pool.mem_usage\nexcept AttributeError: pass",
    b"getattr(a['pool'], 'x', None)",
]
DROPPED = [
    b"hasattr(model, 'pool')",
    b"getattr(a[0], pool, None)",
    b"pool.x; isinstance(p, int)",
    b"except AttributeError: pool.x",
    b"",
]


def test_what_cannot_hold_a_gate_is_not_parsed(engine: Profile) -> None:
    may = Prefilter(engine).may_hold_gates
    assert [may(text) for text in KEPT] == [True] * len(KEPT)
    assert [may(text) for text in DROPPED] == [False] * len(DROPPED)
