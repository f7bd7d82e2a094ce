"""What Mooncake does here: its tests, sessions over it, and the demo, into the page of sessions.

    python -m tests.transfer.mooncake.results [--write]

For `make mooncake`, which sees to Mooncake and to the libraries that it loads. A test that is
skipped is none that passed: the exit status is then 1, as where one fails, and nothing is written.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

from benchmarks.report import machine_facts, markdown_table, write_section
from benchmarks.transfer import LAYERS, PAGE_SIZE, PAGES, rate
from kvproto.transfer.demo.command import measure
from kvproto.transfer.demo.pools import DEMO_POOLS
from kvproto.transfer.demo.sides import DemoOptions

__all__ = ["OWN_TESTS", "PAGE", "SESSIONS", "main"]

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "transfer-sessions.md"
OWN_TESTS = tuple(
    f"tests/transfer/test_{name}.py" for name in ("engines", "mooncake_writes", "mooncake_sessions")
)
SESSIONS = tuple(
    f"tests/transfer/test_{name}.py" for name in ("sessions", "session_counts", "stages", "links")
)
_DISTRIBUTION = "mooncake-transfer-engine-non-cuda"
_LIBRARIES = ROOT / "build" / "mooncake"
_ROUNDS = 40


class _Failed(Exception):
    """What went wrong, as it was printed."""


def main() -> int:
    """Run everything; print, and write with `--write`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the result into docs/")
    arguments = parser.parse_args()
    try:
        rows = [
            _tested("the engine's tests", "-k", "mooncake", *OWN_TESTS),
            _tested("tests of sessions, over Mooncake", *SESSIONS),
            _demonstrated(),
            _compared(),
        ]
    except _Failed as failed:
        print(f"mooncake: {failed}", file=sys.stderr)
        return 1
    section = _section(rows)
    print(section)
    if arguments.write:
        write_section("mooncake", section, PAGE)
    return 0


def _tested(what: str, *arguments: str) -> tuple[str, str]:
    environment = os.environ | {"KVPROTO_SESSION_ENGINE": "mooncake"}
    with TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
        done = subprocess.run(
            [*command, f"--junit-xml={report}"],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode or not report.is_file():
            raise _Failed(f"{what}:\n{done.stdout}{done.stderr}")
        cases = Counter(
            "skipped" if case.find("skipped") is not None else "passed"
            for case in ElementTree.parse(report).iter("testcase")
        )
    if cases["skipped"] or not cases["passed"]:
        raise _Failed(f"{what}: {cases['passed']} passed, {cases['skipped']} did not run")
    print(f"{what}: {cases['passed']} passed", flush=True)
    return what, f"{cases['passed']} passed"


def _demonstrated() -> tuple[str, str]:
    """Every kind of pool, every row held against the sender's."""
    command = [
        str(Path(sys.executable).parent / "kvproto"),
        "transfer-demo",
        "--engine",
        "mooncake",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    print(done.stdout, flush=True)
    shown = [line.split()[0] for line in done.stdout.splitlines()[2:]]
    if done.returncode or shown != list(DEMO_POOLS):
        raise _Failed(f"transfer-demo: {done.stdout}{done.stderr}")
    return "`kvproto transfer-demo --engine mooncake`", f"{', '.join(shown)}: every row is right"


def _compared() -> tuple[str, str]:
    options = DemoOptions(
        kinds=("mha",),
        engine="mooncake",
        pages=PAGES,
        page_size=PAGE_SIZE,
        layers=LAYERS,
        rounds=_ROUNDS,
        timeout=300,
    )
    found, failure = measure(options)
    if failure is not None:
        raise _Failed(failure)
    what = f"a session's rate, {_ROUNDS} rounds of {found[0].nbytes / 2**20:.0f} MiB"
    return what, f"{rate(found[0]):.2f} of the engine's alone"


def _section(rows: list[tuple[str, str]]) -> str:
    packages = sorted(each.name.rpartition("_")[0] for each in _LIBRARIES.glob("*.deb"))
    return "\n\n".join(
        [
            "## Mooncake, as it last ran",
            f"`make mooncake`: {_DISTRIBUTION} {version(_DISTRIBUTION)}, with "
            f"{', '.join(each.replace('_', ' ') for each in packages)} unpacked and not installed, "
            f"on {machine_facts()}.",
            markdown_table(("what", "result"), rows),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
