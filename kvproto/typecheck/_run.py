"""The command: class in, report out."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from kvproto._bad_input import BadInput

from ._checkers import CHECKERS, CheckerFailed, Message, command_of, run_checker
from ._meant import meant_protocols, named_protocols
from ._probe import Probe, write_probe
from ._report import report
from ._target import load_class
from ._verdict import judge, outside

__all__ = ["run"]

FITS, FINDINGS, BAD_INPUT = 0, 1, 2


def run(
    target: str,
    *,
    protocols: Sequence[str] | None = None,
    checkers: Sequence[str] = ("mypy", "pyright"),
) -> int:
    """Print how the class `module:Class` fits the protocols; the result is the exit status.

    `protocols` are names; None means those the class seems to be written for. 0: everything
    fits; 1: something does not; 2: the class could not be looked at, said in one line on stderr.
    """
    try:
        return _run(target, protocols, checkers)
    except (BadInput, CheckerFailed) as error:
        _complain(str(error))
        return BAD_INPUT


def _run(target: str, names: Sequence[str] | None, checkers: Sequence[str]) -> int:
    commands = _installed(checkers)
    named = named_protocols(names) if names else None
    cls = load_class(target)
    asked = named or meant_protocols(cls)
    module, _, path = target.partition(":")
    probe = write_probe(module, path, asked)
    messages = _without_the_blind(target, probe, _ask(probe, commands, _roots(module)))
    verdicts = judge(cls, asked, probe, messages)
    print(report(target, verdicts, list(messages)))
    fits = not any(verdict.findings for verdict in verdicts)
    if not fits and named is None:
        print("asked were the protocols it seems to be written for; choose with --protocol NAME")
    return FITS if fits else FINDINGS


def _without_the_blind(
    target: str, probe: Probe, messages: dict[str, list[Message]]
) -> dict[str, list[Message]]:
    """Leave out the checkers that could not look at the class; to them everything fits."""
    seeing = {checker: said for checker, said in messages.items() if not outside(probe, said)}
    for checker in messages.keys() - seeing:
        reason = outside(probe, messages[checker])[0].text
        _complain(f"{checker} cannot look at {target}: {reason}")
    if not seeing:
        raise BadInput(f"no checker could look at {target}")
    return seeing


def _installed(checkers: Sequence[str]) -> dict[str, list[str]]:
    commands: dict[str, list[str]] = {}
    for checker in checkers:
        if checker not in CHECKERS:
            raise BadInput(f"no checker is named {checker!r}; there are {', '.join(CHECKERS)}")
        command = command_of(checker)
        if command is None:
            program = CHECKERS[checker][0]
            _complain(f"{checker} is not installed and says nothing here: pip install {program}")
        else:
            commands[checker] = command
    if not commands:
        raise BadInput("no type checker to ask; pip install 'kvproto[typecheck]'")
    return commands


def _ask(
    probe: Probe, commands: dict[str, list[str]], roots: Sequence[Path]
) -> dict[str, list[Message]]:
    with tempfile.TemporaryDirectory(prefix="kvproto-typecheck-") as directory:
        file = Path(directory) / "kvproto_typecheck_probe.py"
        file.write_text(probe.text)
        return {
            checker: run_checker(checker, command, file, roots)
            for checker, command in commands.items()
        }


def _roots(module: str) -> list[Path]:
    """Where a checker must look beside the environment it finds by itself."""
    places = [Path(os.getcwd()), _root_of(module), _root_of("kvproto")]
    return [
        place
        for place in dict.fromkeys(places)
        if place is not None and not {"site-packages", "dist-packages"} & set(place.parts)
    ]


def _root_of(module: str) -> Path | None:
    file = getattr(sys.modules[module], "__file__", None)
    if file is None:
        return None
    path = Path(file).resolve()
    inside = path.parent if path.stem == "__init__" else path
    return inside.parents[module.count(".")]


def _complain(line: str) -> None:
    print(f"kvproto typecheck: {line}", file=sys.stderr)
