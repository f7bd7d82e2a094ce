"""Every option that a plan can refuse is named as the command names it."""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from kvproto import configurator
from kvproto.configurator import (
    MemoryBudget,
    ParallelLayout,
    ServingOptions,
    SpeculativeOptions,
    StateOptions,
)
from kvproto.configurator.arguments import add_plan_arguments
from kvproto.configurator.flag_names import FLAGS, PYTHON_ONLY

OPTIONS = (ServingOptions, SpeculativeOptions, StateOptions, ParallelLayout, MemoryBudget)


def refused_by_name() -> Iterator[str]:
    """The words that are the first argument of a `PlanError`."""
    for path in Path(configurator.__path__[0]).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(func=ast.Name(id="PlanError"), args=[ast.Constant(value=str(n)), *_]):
                    yield n
                case _:
                    pass


def test_every_option_of_a_plan_has_a_flag_or_is_of_python_alone() -> None:
    named = {field.name for options in OPTIONS for field in fields(options)}
    named |= set(refused_by_name())
    assert {"page_size", "role", "pp_rank", "draft_shape"} <= named
    assert named - set(FLAGS) - PYTHON_ONLY == {"model_type"}
    assert not PYTHON_ONLY & set(FLAGS)
    assert named >= PYTHON_ONLY


def test_every_flag_is_one() -> None:
    parser = argparse.ArgumentParser()
    add_plan_arguments(parser)
    known = {name for action in parser._actions for name in action.option_strings}
    assert {flag.split()[0] for flag in FLAGS.values()} <= known
