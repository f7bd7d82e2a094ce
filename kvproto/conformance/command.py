"""`kvproto check`, `kvproto repro` and `kvproto laws`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from kvproto._bad_input import BadInput

from .check import check_pool
from .check_platform import check_platform
from .expectations import load_expected_failures
from .factory import load_factory, load_row_access
from .found import LAWS_VERSION
from .law import LAWS
from .platform_named import load_platform, platform_names
from .render import last_line, print_failures, print_report
from .render_platform import print_capabilities, print_platform
from .report import Report
from .runner import Progress as Advance
from .specs import SPECS
from .specs.models import MODELS, WAYS

__all__ = ["BUILT_IN", "check", "list_laws", "repro"]

BUILT_IN = ("kvproto.reference.build_any:build_reference",)
"""The factories that `kvproto check` covers when it is given none."""


def check(arguments: argparse.Namespace) -> int:
    """Run the laws as asked; the exit status.

    :raises BadInput: for input the kit cannot use.
    """
    if arguments.platform:
        return _check_platform(arguments)
    targets = [arguments.factory] if arguments.factory else BUILT_IN
    if len(targets) > 1 and (arguments.json or arguments.html):
        raise BadInput("--json and --html hold one report: name a factory")
    asked = _asked(arguments)
    console = Console()
    status = 0
    for target in targets:
        report = _with_progress(target, asked)
        print_report(report, console, asked=frozenset(arguments.capability or ()))
        _write(report, arguments.json, arguments.html)
        status = max(status, 0 if report.ok else 1)
    return status


def repro(arguments: argparse.Namespace) -> int:
    """Run one law again; the exit status.

    :raises BadInput: for an unknown law, and for input the kit cannot use.
    """
    if arguments.law not in LAWS:
        raise BadInput(f"no law '{arguments.law}': `kvproto laws` lists them")
    asked = {
        "laws": [arguments.law],
        "specs": arguments.spec,
        "seed": arguments.seed,
        "row_access": load_row_access(arguments.row_access),
        "device": arguments.device,
    }
    if arguments.platform:
        report = _of_platform(arguments.factory, asked)
        print_platform(report, Console())
    else:
        report = _with_progress(arguments.factory, asked)
        print_report(report, Console())
    return 0 if report.ok else 1


def list_laws() -> int:
    """Print every law and geometry."""
    table = Table("law", "binds", "since", "level", "claim", box=None, pad_edge=False)
    for law in LAWS.values():
        binds = ", ".join(c.__name__ for c in law.capabilities) or "every pool"
        table.add_row(law.id, binds, law.since, law.level, Text(law.claim))
    console = Console()
    console.print(table)
    console.print(f"\ngeometries: {', '.join(spec.name for spec in SPECS)}", highlight=False)
    console.print(f"\nmodels: {', '.join(MODELS)}", highlight=False)
    console.print(f"\nserved, each as MODEL-WAY: {', '.join(WAYS)}", highlight=False)
    return 0


def _asked(arguments: argparse.Namespace) -> dict[str, Any]:
    """What is asked of factories and of platforms alike."""
    return {
        "laws": arguments.law,
        "capabilities": arguments.capability,
        "specs": arguments.spec,
        "claims": arguments.claim,
        "cannot": _reasons(arguments.cannot),
        "expected": load_expected_failures(arguments.expect) if arguments.expect else None,
        "laws_version": arguments.laws or LAWS_VERSION,
        "seed": arguments.seed,
        "row_access": load_row_access(arguments.row_access),
        "isolate": arguments.isolate,
        "device": arguments.device,
    }


def _check_platform(arguments: argparse.Namespace) -> int:
    if arguments.factory:
        raise BadInput("--platform: its parts come from the platform; leave out the factory")
    if arguments.platform != ["all"] and len(arguments.platform) == 1:
        report = _of_platform(arguments.platform[0], _asked(arguments))
        print_platform(report, Console())
        _write(report, arguments.json, arguments.html)
        return 0 if report.ok else 1
    if arguments.json or arguments.html:
        raise BadInput("--json and --html hold one report: name one platform")
    return _check_platforms(arguments.platform, _asked(arguments))


def _check_platforms(names: Sequence[str], asked: Mapping[str, Any]) -> int:
    """Several, side by side; of all there are, those that cannot be built here are told."""
    console, reports = Console(), dict[str, Report]()
    for name in platform_names() if names == ["all"] else names:
        try:
            report = _of_platform(name, asked)
        except BadInput as error:
            if names != ["all"]:
                raise
            console.print(Text(f"{name}: not checked: {error}"), soft_wrap=True)
            continue
        where = f": {report.place}" if report.place else ""
        console.print(Text(f"{name}{where}", style="bold"), soft_wrap=True)
        print_failures(report, console)
        console.print(last_line(report))
        console.print()
        reports[name] = report
    if not reports:
        raise BadInput("no platform can be checked here")
    print_capabilities(reports, console)
    return 0 if all(report.ok for report in reports.values()) else 1


def _of_platform(name: str, asked: Mapping[str, Any]) -> Report:
    found, target = load_platform(name), f"--platform {name}"
    with _progress(target) as advance:
        return check_platform(
            found.platform, target=target, place=found.place, progress=advance, **asked
        )


def _with_progress(target: str, asked: Mapping[str, Any]) -> Report:
    factory = load_factory(target)
    with _progress(target) as advance:
        return check_pool(factory, target=target, progress=advance, **asked)


@contextmanager
def _progress(target: str) -> Generator[Advance]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(target, total=None)

        def advance(done: int, total: int, name: str) -> None:
            bar.update(task, completed=done, total=total, description=f"{target} {name}")

        yield advance


def _reasons(given: Sequence[str] | None) -> dict[str, str] | None:
    if given is None:
        return None
    reasons: dict[str, str] = {}
    for entry in given:
        name, _, reason = entry.partition("=")
        reasons[name] = reason
    return reasons


def _write(report: Report, json_path: str | None, html_path: str | None) -> None:
    if json_path:
        from .report_json import report_json

        _replace(json_path, report_json(report))
    if html_path:
        from .report_html import report_html

        _replace(html_path, report_html(report))


def _replace(path: str, text: str) -> None:
    """Write the file whole or not at all."""
    target = Path(path)
    unfinished = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(target)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise BadInput(f"{path}: cannot be written: {error.strerror}") from None
