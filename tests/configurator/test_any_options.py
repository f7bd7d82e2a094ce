"""Whatever options somebody combines: a plan, or one line that says which of them and why."""

from __future__ import annotations

import argparse
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvproto import cli
from kvproto.configurator import example_names
from kvproto.configurator.arguments import add_plan_arguments

_WORDS = {
    "--memory": ("1GiB", "16GiB", "80GiB"),
    "--weights": ("0", "8GiB"),
    "--reserved": ("0", "512MiB"),
    "--platform": ("cpu", "cuda"),
    "--draft-config": ("llama", "deepseek_v3"),
}
"""Values of options that are words; those that are not here are not drawn."""

_COUNTS = ("0", "1", "2", "3", "8", "64", "1000", "100000")
_SHARES = ("0", "0.1", "0.5", "1", "3")


def values(action: argparse.Action) -> tuple[str, ...] | None:
    """What is drawn for an option; empty for a flag, None for one that is left alone."""
    name = action.option_strings[-1]
    if action.nargs == 0:
        return ()
    if action.choices is not None:
        return tuple(action.choices)
    if action.type is int:
        return _COUNTS
    return _SHARES if action.type is float else _WORDS.get(name)


def drawable() -> dict[str, tuple[str, ...]]:
    parser = argparse.ArgumentParser(add_help=False)
    add_plan_arguments(parser)
    options = [action for action in parser._actions if action.option_strings]
    drawn = {action.option_strings[-1]: values(action) for action in options}
    return {name: drawn_values for name, drawn_values in drawn.items() if drawn_values is not None}


OPTIONS = drawable()


def test_every_option_is_drawn() -> None:
    parser = argparse.ArgumentParser(add_help=False)
    add_plan_arguments(parser)
    names = {a.option_strings[-1] for a in parser._actions if a.option_strings}
    assert names - set(OPTIONS) == {"--compare"}


@st.composite
def commands(draw: st.DrawFn) -> list[str]:
    command = ["plan", draw(st.sampled_from(example_names()))]
    for name in draw(st.lists(st.sampled_from(sorted(OPTIONS)), max_size=6, unique=True)):
        allowed = OPTIONS[name]
        command += [name, draw(st.sampled_from(allowed))] if allowed else [name]
    return command


@settings(
    deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(commands())
def test_a_plan_or_one_line(capsys: pytest.CaptureFixture[str], command: list[str]) -> None:
    status: Any = cli.main(command)
    out, err = capsys.readouterr()
    if status == 0:
        assert out
        assert not err
    else:
        assert (status, out) == (2, "")
        assert err.startswith("kvproto: ")
        assert err.count("\n") == 1
