"""The `kvproto` command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TypeAlias

    from .conformance import Report

    Commands: TypeAlias = argparse._SubParsersAction[  # pyright: ignore[reportPrivateUsage]
        argparse.ArgumentParser
    ]

__all__ = ["main"]

BUILT_IN = ("kvproto.reference:build_reference_leaf",)
"""The factories that `kvproto check` covers when it is given none."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status: 0 kept, 1 findings, 2 bad input."""
    arguments = _parser().parse_args(argv)
    try:
        status: int = arguments.run(arguments)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] not in _EXTRA_OF:
            raise
        extra = _EXTRA_OF[error.name.split(".")[0]]
        return _refuse(f"{error.name} is not installed: pip install 'kvproto[{extra}]'")
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    return status


_EXTRA_OF = {"rich": "check", "hypothesis": "check", "pytest": "check", "beartype": "debug"}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kvproto",
        description="Capabilities of KV-cache pools: what a pool can do, and why not.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_check(commands)
    _add_laws(commands)
    _add_typecheck(commands)
    return parser


def _add_check(commands: Commands) -> None:
    check = commands.add_parser(
        "check",
        help="run the conformance laws on the pools a factory builds",
        description="Build pools through a factory, on the CPU, and hold them to every law that "
        "binds their capabilities. The factory takes one leaf request and returns a pool, or "
        "kvproto.protocols.Declined(reason). Exit status: 0 every law kept, 1 some broken, "
        "2 the input is at fault.",
        epilog="example: kvproto check acme.pools:build --law transfer",
    )
    check.add_argument(
        "factory", nargs="?", metavar="module:factory", help="default: every built-in pool"
    )
    check.add_argument(
        "--law", action="append", metavar="ID", help="only this law or family; repeatable"
    )
    check.add_argument(
        "--capability", action="append", metavar="NAME", help="only laws of this capability"
    )
    check.add_argument("--spec", action="append", metavar="NAME", help="only this geometry")
    check.set_defaults(run=_check)


def _add_laws(commands: Commands) -> None:
    laws = commands.add_parser("laws", help="list the laws, their claims and the geometries")
    laws.set_defaults(run=_laws)


def _add_typecheck(commands: Commands) -> None:
    typecheck = commands.add_parser(
        "typecheck",
        help="let mypy and pyright judge a pool class against the protocols",
        description="Generate one assignment per protocol for a class, run the installed type "
        "checkers on it and print their verdict per member.",
        epilog="example: kvproto typecheck acme.pools:AcmePool --protocol KVLeaf",
    )
    typecheck.add_argument("target", metavar="module:Class")
    typecheck.add_argument("--protocol", action="append", metavar="NAME", help="repeatable")
    typecheck.set_defaults(run=_typecheck)


def _check(arguments: argparse.Namespace) -> int:
    from rich.console import Console

    from .conformance import BadInput
    from .conformance.render import print_report

    console = Console()
    status = 0
    for target in [arguments.factory] if arguments.factory else BUILT_IN:
        try:
            report = _checked(target, arguments)
        except BadInput as error:
            return _refuse(str(error))
        print_report(report, console, asked=frozenset(arguments.capability or ()))
        status = max(status, 0 if report.ok else 1)
    return status


def _checked(target: str, arguments: argparse.Namespace) -> Report:
    from rich.console import Console

    from .conformance import check_pool, load_factory

    with Console(stderr=True).status(f"checking {target}") as progress:
        return check_pool(
            load_factory(target),
            laws=arguments.law,
            capabilities=arguments.capability,
            specs=arguments.spec,
            target=target,
            progress=lambda spec: progress.update(f"checking {target}: {spec}"),
        )


def _laws(_arguments: argparse.Namespace) -> int:
    from rich.console import Console
    from rich.table import Table

    from .conformance import LAWS
    from .conformance.specs import SPECS

    table = Table("law", "binds", "since", "claim", box=None, pad_edge=False)
    for law in LAWS.values():
        binds = ", ".join(c.__name__ for c in law.capabilities) or "every pool"
        table.add_row(law.id, binds, law.since, law.claim)
    console = Console()
    console.print(table)
    console.print(f"\ngeometries: {', '.join(spec.name for spec in SPECS)}", highlight=False)
    return 0


def _typecheck(arguments: argparse.Namespace) -> int:
    from .typecheck import run

    return run(arguments.target, protocols=arguments.protocol)


def _refuse(line: str) -> int:
    print(f"kvproto: {line}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    raise SystemExit(main())
