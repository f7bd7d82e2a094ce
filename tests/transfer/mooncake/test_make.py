"""`make mooncake`: what it says where it cannot run, and what the page says of its last run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from kvproto.transfer.demo.pools import DEMO_POOLS
from tests.transfer.mooncake import libraries, results

SCRIPT = Path(libraries.__file__)


def program(folder: Path, name: str, *lines: str) -> None:
    folder.mkdir(exist_ok=True)
    made = folder / name
    made.write_text("\n".join(["#!/bin/sh", f'echo "{name} $*" >> {folder}/log', *lines, ""]))
    made.chmod(0o755)


def run(path: Path, target: Path) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, SCRIPT, target],
        env={"PATH": f"{path}:/bin:/usr/bin"} if path.exists() else {"PATH": str(path)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_where_apt_is_not_one_line_says_so(tmp_path: Path) -> None:
    status, out, err = run(tmp_path / "nothing", tmp_path / "made")
    assert (status, out) == (1, "")
    assert re.fullmatch(r"mooncake: did not run: there is no apt-get: .* Debian alone\n", err)


def test_what_apt_refuses_is_told_in_one_line_and_leaves_no_path(tmp_path: Path) -> None:
    program(
        tmp_path / "bin",
        "apt-get",
        "echo 'W: running unsandboxed' >&2",
        "echo 'E: Unable to locate package libibverbs1' >&2",
        "exit 100",
    )
    status, out, err = run(tmp_path / "bin", tmp_path / "made")
    assert (status, out) == (1, "")
    assert err == (
        "mooncake: did not run: apt-get download: E: Unable to locate package libibverbs1; is apt's"
        " index here, as `apt-get update` brings it?\n"
    )
    assert not (tmp_path / "made" / "library-path").exists()


def test_packages_are_unpacked_once_and_none_is_installed(tmp_path: Path) -> None:
    """apt-get downloads, dpkg unpacks: neither is asked for anything else."""
    program(
        tmp_path / "bin", "apt-get", "shift", "for each in $*; do touch ${each}_1_all.deb; done"
    )
    program(tmp_path / "bin", "dpkg", "mkdir -p $3/usr/lib/here", "touch $3/usr/lib/here/libx.so.1")
    made = tmp_path / "made"
    for _ in range(2):
        assert run(tmp_path / "bin", made) == (0, "", "")
    assert (made / "library-path").read_text() == str(made / "root/usr/lib/here")
    asked = [line.split() for line in (tmp_path / "bin" / "log").read_text().splitlines()]
    assert asked[0] == ["apt-get", "download", *libraries.PACKAGES]
    assert [line[:2] for line in asked[1:]] == [["dpkg", "-x"]] * len(libraries.PACKAGES)


def test_the_page_says_what_ran_and_that_all_of_it_passed() -> None:
    text = results.PAGE.read_text().partition("<!-- mooncake: begin -->")[2]
    section = text.partition("<!-- mooncake: end -->")[0]
    own, sessions = (int(found) for found in re.findall(r"\| (\d+) passed \|", section))
    assert own >= 29
    assert sessions >= 34
    assert f"{', '.join(DEMO_POOLS)}: every row is right" in section
    assert re.search(r"mooncake-transfer-engine-non-cuda \d+\.\d+", section)
    for package in libraries.PACKAGES:
        assert f"{package} " in section


@pytest.mark.parametrize("body", ["", "<skipped/>"], ids=["none", "skipped"])
def test_tests_that_did_not_run_are_no_result(
    body: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def ran(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        report = command[-1].partition("--junit-xml=")[2]
        cases = f"<testcase>{body}</testcase>" if body else ""
        Path(report).write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", ran)
    monkeypatch.setattr(results, "write_section", lambda *_: pytest.fail("written"))
    monkeypatch.setattr(sys, "argv", ["results", "--write"])
    assert results.main() == 1
    assert "0 passed" in capsys.readouterr().err
