"""The page shows what a session is demanded to reach, and the benchmark fails below it."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from benchmarks import transfer
from kvproto.transfer.demo.command import measure
from kvproto.transfer.demo.sides import DemoOptions, DemoResult, Round
from kvproto.transfer.session import Sender

PAGE = Path(__file__).parents[2] / "docs" / "transfer-sessions.md"


@pytest.mark.parametrize(("seconds", "status"), [(1.1, 0), (1.2, 1)])
def test_a_session_slower_than_demanded_is_the_exit_status(
    seconds: float,
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rounds = (Round(seconds, 1.0, 0.5),) * 3
    found = [DemoResult("mha", 1 << 28, 64, rounds)]
    monkeypatch.setattr(transfer, "measure", lambda _: (found, None))
    monkeypatch.setattr(sys, "argv", ["transfer"])
    assert transfer.main() == status
    assert ("Missed: 0.83 of the engine alone." in capsys.readouterr().out) == bool(status)


def test_a_session_that_sleeps_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The processes are forked from this one, and sleep in each poll of the sender."""
    poll = Sender.poll

    def slow(self: Sender) -> None:
        time.sleep(0.05)
        poll(self)

    monkeypatch.setattr(Sender, "poll", slow)
    sizes = {"pages": 8, "page_size": 64, "layers": 8, "rounds": 1}
    found, failure = measure(DemoOptions(kinds=("mha",), engine="local", timeout=60, **sizes))
    assert failure is None
    assert transfer.shortfalls(found[0])


def test_what_could_not_be_measured_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "measure", lambda _: ([], "nixl is not installed"))
    monkeypatch.setattr(transfer, "write_section", lambda *_: pytest.fail("written"))
    monkeypatch.setattr(sys, "argv", ["transfer", "--write"])
    assert transfer.main() == 2


def test_the_page_shows_the_rate_and_whether_it_is_what_is_demanded() -> None:
    text = PAGE.read_text()
    (row,) = [line for line in text.splitlines() if line.startswith("| keys and values of an 8B")]
    rate, demanded = (float(cell) for cell in row.split("|")[4:6])
    assert demanded == transfer.AT_LEAST
    assert (rate < demanded) == ("Missed: " in text)
