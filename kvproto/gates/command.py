"""The `kvproto gates` command."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kvproto._bad_input import BadInput

from .profile import Profile
from .profile_file import load_profile
from .progress import Progress
from .report import print_scan
from .report_json import check_writable, write_json
from .report_rewrite import print_rewrite
from .rewrite_tree import rewrite_tree
from .scan import scan
from .write_tree import check_free, patch_of, write_copy, write_in_place

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> int:
    """Scan or rewrite, and report; 0 all well, 1 too many gates or a file that was not read.

    :raises BadInput: for a path, a profile or a number that cannot be used.
    """
    profile = load_profile(arguments.profile)
    if arguments.diff or arguments.apply or arguments.in_place:
        return _rewrite(arguments, profile)
    return _scan(arguments, profile)


def _scan(arguments: argparse.Namespace, profile: Profile) -> int:
    most: int | None = arguments.max
    if most is not None and most < 0:
        raise BadInput(f"--max {most}: must not be negative")
    if arguments.json:
        check_writable(Path(arguments.json))
    with Progress() as progress:
        found = scan(Path(arguments.path), profile, done=progress.done)
    print_scan(found, profile, every=arguments.list)
    if arguments.json:
        write_json(found, profile, Path(arguments.json))
    if most is not None and len(found.gates) > most:
        print(f"{len(found.gates)} gates, more than --max {most}")
        return 1
    return 1 if found.unread else 0


def _rewrite(arguments: argparse.Namespace, profile: Profile) -> int:
    path = Path(arguments.path)
    if arguments.json or arguments.list or arguments.max is not None:
        raise BadInput("--json, --list and --max are of a scan: leave them out to rewrite")
    if arguments.apply:
        check_free(path, Path(arguments.apply))
    with Progress() as progress:
        tree = rewrite_tree(path, profile, done=progress.done)
    if arguments.diff:
        sys.stdout.flush()
        sys.stdout.buffer.writelines(patch_of(tree))
        sys.stdout.buffer.flush()
    elif arguments.apply:
        write_copy(tree, path, Path(arguments.apply))
    else:
        write_in_place(tree)
    print_rewrite(tree, to=sys.stderr if arguments.diff else sys.stdout)
    return 1 if tree.unread else 0
