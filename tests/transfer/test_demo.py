"""`kvproto transfer-demo`: two processes, pools of every kind, rows held against the sender's."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kvproto.cli import main
from kvproto.transfer.demo import progress, sides
from kvproto.transfer.demo.pools import DEMO_POOLS

COMMAND = Path(sys.executable).parent / "kvproto"
SMALL = ("--pages", "3", "--page-size", "16", "--rounds", "1")


def test_every_kind_of_pool_travels_and_is_shown() -> None:
    done = subprocess.run(
        [COMMAND, "transfer-demo", "--engine", "local", *SMALL],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line.split() for line in done.stdout.splitlines()[2:]]
    assert [line[0] for line in lines] == list(DEMO_POOLS)
    for line in lines:
        assert re.fullmatch(r"\d+%", line[6])
        assert float(line[1]) > 0


@pytest.mark.parametrize("is_terminal", [True, False])
def test_progress_is_shown_on_a_terminal_once_it_takes_long(
    is_terminal: bool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    monkeypatch.setenv("FORCE_COLOR", "1")
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with progress.Progress(5) as shown:
        shown.show(1)
        assert capfd.readouterr().err == ""
        now = 2.5
        shown.show(2)
        shown.show(3)
    assert ("/5" in capfd.readouterr().err) == is_terminal


def test_rows_that_differ_fail_the_command(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The processes are forked from this one: each finds a digest of its own."""
    monkeypatch.setattr(sides, "digest_of_rows", lambda *_: str(os.getpid()))
    assert main(["transfer-demo", "--engine", "local", "--pool", "mha", *SMALL]) == 1
    assert "transfer mha with prefill, moving: rows differ" in capfd.readouterr().err


@pytest.mark.parametrize("option", ["--pages", "--page-size", "--layers", "--rounds"])
def test_counts_below_one_are_refused(option: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["transfer-demo", option, "0"]) == 2
    assert capfd.readouterr() == ("", f"kvproto: {option} must be at least 1\n")


def test_what_cannot_be_done_in_time_ends(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["transfer-demo", "--engine", "local", "--timeout", "0.01", *SMALL]) == 1
    assert capfd.readouterr().err == "kvproto: not done in 0.01 seconds\n"
