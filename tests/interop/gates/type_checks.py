"""What mypy says of sglang's files as they are, rewritten, and rewritten without concessions.

python -m tests.interop.gates.type_checks --write    docs/gates-types.md, in minutes
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from kvproto.gates import Profile, load_profile
from kvproto.gates.rewrite import rewrite
from kvproto.gates.rewrite_tree import rewrite_tree
from tests.interop import make_venv
from tests.interop.gates.overlay import overlay

__all__ = ["PAGE", "Errors", "Sources", "counts", "errors_in", "rewritten_by", "strict"]

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "gates-types.md"

Errors: TypeAlias = Counter[tuple[str, str]]
"""File and message -> how often."""

Sources: TypeAlias = Mapping[str, bytes]
"""File, below `srt` -> what is in it."""

_ERROR = re.compile(r"sglang/srt/(\S+?):\d+: error: (.*)")
_CONFIG = """\
[mypy]
python_version = 3.11
follow_imports = {follow}
ignore_missing_imports = true
check_untyped_defs = true
namespace_packages = true
explicit_package_bases = true
no_error_summary = true

[mypy-kvproto.*]
follow_imports = silent
"""

_HEAD = """\
# What a type checker says of rewritten gates

Written by `make gates-types`; do not edit. mypy checks the files of sglang {release} that
`kvproto gates` rewrites, as they are and rewritten, with the rest of sglang behind them.

{counts}

No message is new. That takes a concession: a rewritten gate narrows a pool to a capability, and
some branches behind a gate read more than the capability has. In those files (`[[module_of_file]]`
of the profile) capabilities are imported from `kvproto.adapters.sglang.nominal`, which is the
capability at run time, and to a type checker sglang's own class, as the gate said before.

## What branches read beyond the capability

Without the concession mypy says {strict} things more, most of them of a member. A pool of
another's that passes such a gate needs these members too, or fails in the branch.

| file | capability | members |
| --- | --- | --- |
"""

_MEMBER = re.compile(r'"([^"]+|<subclass of .*>)"(?: of "[^"]+")? has no attribute "(\w+)"')
_NAME = re.compile(r"(?:\w+\.)*(\w+)")


def rewritten_by(profile: Profile, srt: Path, files: Iterable[str]) -> dict[str, bytes]:
    """The files, rewritten; imports that others may want stay, which a checker does not mind."""
    read = {file: (srt / file).read_bytes() for file in files}
    return {f: rewrite(source, f, profile, lambda _name: True).after for f, source in read.items()}


def strict(profile: Profile) -> Profile:
    """The same, with every capability from where it is defined."""
    return replace(profile, modules_of_files=())


def errors_in(srt: Path, sources: Sources, checked: Iterable[str], *, follow: str) -> Errors:
    """What mypy says of the files that are `checked`, with those sources in place of sglang's.

    `follow`: whether it looks at what else they import ("silent"), or not ("skip").
    """
    with tempfile.TemporaryDirectory() as scratch:
        top = Path(scratch)
        overlay(srt, sources, top)
        (top / "mypy.ini").write_text(_CONFIG.format(follow=follow))
        options = ["--config-file", "mypy.ini", "--cache-dir", str(top / "cache")]
        done = subprocess.run(
            [sys.executable, "-m", "mypy", *options, *(f"sglang/srt/{f}" for f in checked)],
            cwd=top,
            env=os.environ | {"MYPYPATH": f"{top}{os.pathsep}{ROOT}"},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode not in (0, 1) or done.stderr:
        raise RuntimeError(done.stderr or done.stdout)
    found = map(_ERROR.match, done.stdout.splitlines())
    # Rewriting moves lines.
    return Counter((m[1], re.sub(r"on line \d+", "elsewhere", m[2])) for m in found if m)


def counts(before: Errors, after: Errors, files: int) -> str:
    """One line."""
    return (
        f"{files} files: {before.total()} messages before, {after.total()} after; "
        f"{(after - before).total()} new, {(before - after).total()} gone"
    )


def rendered(before: Errors, after: Errors, hard: Errors, files: int, profile: Profile) -> str:
    """The page."""
    beyond = hard - before
    head = _HEAD.format(
        release=profile.covers.rpartition(" ")[2],
        counts=f"```text\n{counts(before, after, files)}\n```",
        strict=beyond.total(),
    )
    return head + "\n".join(_rows(beyond)) + "\n" + "\n".join(_others(beyond)) + "\n"


def _rows(beyond: Errors) -> Iterator[str]:
    members: dict[tuple[str, str], set[str]] = defaultdict(set)
    for file, message in beyond:
        if found := _MEMBER.search(message):
            members[file, _capability(found[1])].add(found[2])
    for (file, capability), names in sorted(members.items()):
        yield f"| {file} | {capability} | {', '.join(sorted(names))} |"


def _capability(told: str) -> str:
    names = re.findall(r"kvproto(?:\.\w+)*\.(\w+)", told) or _NAME.findall(told)[:1]
    return " and ".join(names)


def _others(beyond: Errors) -> Iterator[str]:
    yield ""
    yield "## Other messages"
    yield ""
    yield "Most are of annotations that name sglang's classes."
    yield ""
    for (file, message), count in sorted(beyond.items()):
        if not _MEMBER.search(message):
            yield f"- {file}: {message}{f' ({count} times)' if count > 1 else ''}"


def main() -> None:
    python = make_venv.usable_python()
    if python is None or sys.argv[1:] != ["--write"]:
        raise SystemExit(__doc__ if python else make_venv.cannot_run() or make_venv.not_built())
    (srt,) = (Path(python).parents[1] / "lib").resolve().glob("python3.*/site-packages/sglang/srt")
    profile = load_profile("sglang")
    changed = {file.file: file for file in rewrite_tree(srt, profile).changed}
    was, now, without = (
        errors_in(srt, sources, changed, follow="silent")
        for sources in (
            {name: file.before for name, file in changed.items()},
            {name: file.after for name, file in changed.items()},
            rewritten_by(strict(profile), srt, changed),
        )
    )
    PAGE.write_text(rendered(was, now, without, len(changed), profile))
    print(counts(was, now, len(changed)))


if __name__ == "__main__":
    main()
