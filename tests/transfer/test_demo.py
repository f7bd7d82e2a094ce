"""`kvproto transfer-demo`: two processes, pools of every kind, rows held against the sender's."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kvproto.cli import main
from kvproto.transfer.demo import sides
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
