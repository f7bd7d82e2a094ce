"""Processes that share the tests share what takes long to compute, and nothing outlives a run."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from tests.shared_answers import once


class Folders:
    """As pytest has them: one for each process, in one of the run."""

    def __init__(self, process: Path) -> None:
        self._process = process

    def getbasetemp(self) -> Path:
        return self._process


def _folders(process: Path) -> Any:
    return Folders(process)


def test_the_first_asks_and_the_others_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")
    asked: list[int] = []

    def ask() -> dict[str, Any]:
        asked.append(1)
        sleep(0.05)
        return {"pools": ["a", "b"]}

    with ThreadPoolExecutor() as processes:
        answers = processes.map(
            partial(once, "probe", ask), [_folders(tmp_path / name) for name in ("gw0", "gw1")]
        )
    assert list(answers) == [{"pools": ["a", "b"]}] * 2
    assert asked == [1]
    assert once("laws", ask, _folders(tmp_path / "gw0")) == {"pools": ["a", "b"]}
    assert asked == [1, 1]


def test_what_was_not_answered_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")
    with pytest.raises(ZeroDivisionError):
        once("probe", lambda: {"": 1 // 0}, _folders(tmp_path / "gw0"))
    assert once("probe", lambda: {"": 1}, _folders(tmp_path / "gw1")) == {"": 1}


def test_a_process_alone_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    assert once("probe", lambda: {"": 1}, _folders(tmp_path / "run")) == {"": 1}
    assert not list(tmp_path.iterdir())
