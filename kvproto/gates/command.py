"""The `kvproto gates` command."""

from __future__ import annotations

import argparse
from pathlib import Path

from kvproto._bad_input import BadInput

from .profile_file import load_profile
from .progress import Progress
from .report import print_scan
from .report_json import write_json
from .scan import Scan, scan

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> int:
    """Scan, report; 0 all well, 1 too many gates or files that could not be read.

    :raises BadInput: for a path, a profile or a number that cannot be used.
    """
    if arguments.max is not None and arguments.max < 0:
        raise BadInput(f"--max {arguments.max}: must not be negative")
    profile = load_profile(arguments.profile)
    with Progress() as progress:
        found = scan(Path(arguments.path), profile, done=progress.done)
    print_scan(found, profile, every=arguments.list)
    if arguments.json:
        write_json(found, profile, Path(arguments.json))
    return _status(found, arguments.max)


def _status(found: Scan, most: int | None) -> int:
    if most is not None and len(found.gates) > most:
        print(f"{len(found.gates)} gates, more than --max {most}")
        return 1
    return 1 if found.unread else 0
