"""docs/engine.md shows the last matrix that was run, and in it every run generates the same; what
the command cannot run it refuses before it starts anything.
"""

from __future__ import annotations

import json

import pytest

from tests.interop import make_venv
from tests.interop.engine import matrix
from tests.interop.engine.configurations import MATRIX
from tests.interop.engine.matrix import PAGE, RESULTS, main, section
from tests.interop.engine.trees import RunFailed

TOLD = json.loads(RESULTS.read_text())


def test_the_page_is_what_the_data_say() -> None:
    assert section(TOLD) in PAGE.read_text()


def test_every_configuration_generated_the_same() -> None:
    rows = TOLD["configurations"]
    missing = [each for each in MATRIX if each.name not in rows]
    assert rows.keys() <= {each.name for each in MATRIX}
    assert {each.backend for each in missing} <= {"triton"}
    assert bool(missing) == (f"{len(missing)} of {len(MATRIX)}\n" in section(TOLD))
    assert all(row["equal"] and row["distinct"] > 4 for row in rows.values())


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["window", "nix"], "no configuration has 'nix' in its name: --help lists the names\n"),
        (["window", "hybrid"], "no configuration has all of window, hybrid in its name\n"),
        (["window", "--write"], "--write: the page has every configuration, leave out the words\n"),
    ],
)
def test_what_cannot_be_run_is_refused_in_one_line(
    arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr() == ("", line)


def test_a_run_that_fails_is_told_without_a_traceback(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(python: str) -> None:
        raise RunFailed(f"{python} said no")

    monkeypatch.setattr(make_venv, "usable_python", lambda: "snake")
    monkeypatch.setattr(matrix, "rewritten", fail)
    assert main(["--once"]) == 1
    assert capfd.readouterr().err.splitlines()[1:] == ["snake said no"]


def test_help_lists_every_configuration_and_runs_none(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    told = capsys.readouterr().out.splitlines()
    assert [line.strip() for line in told if "/page " in line] == [each.name for each in MATRIX]
