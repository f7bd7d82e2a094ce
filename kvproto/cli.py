"""The `kvproto` command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TypeAlias

    Commands: TypeAlias = argparse._SubParsersAction[  # pyright: ignore[reportPrivateUsage]
        argparse.ArgumentParser
    ]

__all__ = ["main"]

_EXTRA_OF = {
    "rich": "check",
    "jinja2": "check",
    "hypothesis": "check",
    "pytest": "check",
    "beartype": "debug",
    "msgspec": "transfer",
    "numpy": "transfer",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status: 0 kept, 1 findings, 2 bad input."""
    from ._bad_input import BadInput

    arguments = _parser().parse_args(argv)
    try:
        status: int = arguments.run(arguments)
    except BadInput as error:
        return _refuse(str(error))
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] not in _EXTRA_OF:
            raise
        extra = _EXTRA_OF[error.name.split(".")[0]]
        return _refuse(f"{error.name} is not installed: pip install 'kvproto[{extra}]'")
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kvproto",
        description="Capabilities of KV-cache pools: what a pool can do, and why not.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_check(commands)
    _add_repro(commands)
    _add_laws(commands)
    _add_platforms(commands)
    _add_plan(commands)
    _add_typecheck(commands)
    _add_gates(commands)
    _add_transfer_demo(commands)
    return parser


def _add_check(commands: Commands) -> None:
    check = commands.add_parser(
        "check",
        help="run the conformance laws on the pools a factory builds",
        description="Build pools through a factory, on the CPU, and hold them to every law that "
        "binds their capabilities. The factory takes one request and returns a pool, or "
        "kvproto.protocols.Declined(reason). Exit status: 0 every law kept, 1 some broken, "
        "2 the input is at fault. Options that name one thing may be repeated.",
        epilog="example: kvproto check acme.pools:build --law transfer --html report.html",
    )
    check.add_argument(
        "factory", nargs="?", metavar="module:factory", help="default: every built-in pool"
    )
    check.add_argument(
        "--platform",
        metavar="NAME",
        action="append",
        help="hold a platform to the laws instead, its leaves and allocators and then whole models "
        "built with them, in host memory: the name of an entry point of kvproto.platforms or "
        "kvproto.on_cpu, module:attribute, or all; several are shown side by side",
    )
    _add_device(check)
    check.add_argument("--law", metavar="ID", help="only this law or family", action="append")
    check.add_argument(
        "--capability", metavar="NAME", help="only laws of this one", action="append"
    )
    check.add_argument(
        "--spec", metavar="NAME", help="only this geometry, or deployment", action="append"
    )
    check.add_argument("--claim", metavar="NAME", help="they have this one", action="append")
    check.add_argument(
        "--cannot", metavar="NAME=REASON", help="the pools lack this one", action="append"
    )
    _add_row_access(check)
    check.add_argument("--expect", metavar="FILE", help="TOML of known failures, by law id")
    check.add_argument("--laws", metavar="VERSION", help="newer laws are advisory")
    check.add_argument("--seed", type=int, default=0, help="of the laws' random choices")
    check.add_argument(
        "--isolate",
        choices=("hazardous", "every"),
        default="hazardous",
        help="which laws run in a child process of their own",
    )
    check.add_argument(
        "--mutants",
        action="store_true",
        help="prove the laws, or those of --law, on the kit's faulty pools instead",
    )
    check.add_argument("--json", metavar="FILE", help="write the report as JSON")
    check.add_argument("--html", metavar="FILE", help="write the report as one HTML page")
    check.set_defaults(run=_check)


def _add_repro(commands: Commands) -> None:
    repro = commands.add_parser(
        "repro",
        help="run one law again, as a report says",
        epilog="example: kvproto repro leaf.slot-zero --seed 0 acme.pools:build",
    )
    repro.add_argument("law", metavar="LAW")
    repro.add_argument("factory", metavar="module:factory")
    repro.add_argument(
        "--platform", action="store_true", help="what is named is a platform, as in check"
    )
    repro.add_argument("--seed", type=int, default=0, metavar="N")
    repro.add_argument("--spec", action="append", metavar="NAME", help="only this geometry")
    _add_device(repro)
    _add_row_access(repro)
    repro.set_defaults(run=_repro)


def _add_device(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--device",
        default="cpu",
        metavar="NAME",
        help="where pools are built and looked at, for example npu:0; default: cpu",
    )


def _add_row_access(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--row-access",
        metavar="module:Class",
        help="peek and poke rows with it, where pools declare no regions",
    )


def _add_laws(commands: Commands) -> None:
    laws = commands.add_parser("laws", help="list the laws, their claims and the geometries")
    laws.set_defaults(run=_laws)


def _add_platforms(commands: Commands) -> None:
    platforms = commands.add_parser(
        "platforms",
        help="list the platforms, whether their device is here, and facts of it",
        description="List the platforms that are installed: whether the device is here or what "
        "is absent, and the facts that decide what can be built on it.",
    )
    platforms.set_defaults(run=_platforms)


def _add_plan(commands: Commands) -> None:
    from .configurator.arguments import add_plan_arguments

    plan = commands.add_parser(
        "plan",
        help="work out a model's caches: pools, tokens, requests, where the memory goes",
        description="Read a model's config.json and say what its caches would be on one device. "
        "Nothing is built; no accelerator is needed.",
        epilog="example: kvproto plan config.json --memory 80GiB --weights 16GiB --tp 8 "
        "--page-size 64 --compare kv-dtype=fp8_e4m3",
    )
    add_plan_arguments(plan)
    plan.set_defaults(run=_plan)


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


def _add_gates(commands: Commands) -> None:
    gates = commands.add_parser(
        "gates",
        help="find where code asks who made a pool, and rewrite it to ask what the pool can do",
        description="Read every Python file under a path and list the places that ask for a pool's "
        "class (isinstance, type(x) is ...) or try its members (hasattr, getattr with a default): "
        "what each asks, which capability or trait answers it, and whether that is exact, needs a "
        "trait to be declared, or needs a person. Nothing is imported or run. With --diff, --apply "
        "or --in-place the gates on classes are rewritten, and those that are left are listed with "
        "the reason. Exit status: 0, or 1 for more gates than --max or a file that could not be "
        "read, 2 the input is at fault.",
        epilog="example: kvproto gates python/sglang/srt --max 449",
    )
    gates.add_argument("path", metavar="PATH", help="a file or a folder")
    gates.add_argument(
        "--profile",
        default="sglang",
        metavar="NAME|FILE.toml",
        help="what is known of the code base (default: sglang)",
    )
    gates.add_argument("--list", action="store_true", help="print every gate, not only counts")
    gates.add_argument("--json", metavar="FILE", help="write every gate as JSON")
    gates.add_argument("--max", type=int, metavar="N", help="fail where there are more gates")
    written = gates.add_mutually_exclusive_group()
    written.add_argument("--diff", action="store_true", help="print the rewrite as a patch")
    written.add_argument("--apply", metavar="DIR", help="write a rewritten copy of the tree to DIR")
    written.add_argument("--in-place", action="store_true", help="rewrite the files themselves")
    gates.set_defaults(run=_gates)


def _add_transfer_demo(commands: Commands) -> None:
    demo = commands.add_parser(
        "transfer-demo",
        help="move pages of real pools between two processes, and show how fast",
        description="Start a prefill and a decode process on this machine, move pages of random "
        "bytes from the pools of one to the pools of the other, hold every row against the "
        "sender's, and print the throughput beside that of the engine alone, with the same blocks "
        "in one write, and of a copy within a process. Exit status: 0 every row is equal, 1 a "
        "transfer failed, 2 the input is at fault.",
        epilog="example: kvproto transfer-demo --pool mha --pages 64 --engine nixl",
    )
    demo.add_argument(
        "--engine", choices=("nixl", "mooncake", "local"), default="nixl", help="default: nixl"
    )
    demo.add_argument(
        "--pool",
        choices=("mha", "mla", "dsa", "swa", "hybrid"),
        action="append",
        help="only pools of this kind; default: one of each",
    )
    demo.add_argument("--pages", type=int, default=32, help="pages that travel; default: 32")
    demo.add_argument("--page-size", type=int, default=64, help="tokens of a page; default: 64")
    demo.add_argument("--layers", type=int, default=4, help="layers of the model; default: 4")
    demo.add_argument("--rounds", type=int, default=5, help="the best of so many; default: 5")
    demo.add_argument("--timeout", type=float, default=120.0, help="seconds for all; default: 120")
    demo.set_defaults(run=_transfer_demo)


def _check(arguments: argparse.Namespace) -> int:
    if arguments.mutants:
        from .conformance.mutants.command import check_mutants

        return check_mutants(arguments)
    from .conformance.command import check

    return check(arguments)


def _repro(arguments: argparse.Namespace) -> int:
    from .conformance.command import repro

    return repro(arguments)


def _laws(_arguments: argparse.Namespace) -> int:
    from .conformance.command import list_laws

    return list_laws()


def _platforms(_arguments: argparse.Namespace) -> int:
    from .conformance.platform_facts import list_platforms

    return list_platforms()


def _plan(arguments: argparse.Namespace) -> int:
    from .configurator.command import run

    return run(arguments)


def _typecheck(arguments: argparse.Namespace) -> int:
    from .typecheck import run

    return run(arguments.target, protocols=arguments.protocol)


def _gates(arguments: argparse.Namespace) -> int:
    from .gates.command import run

    return run(arguments)


def _transfer_demo(arguments: argparse.Namespace) -> int:
    from .transfer.demo.command import run

    return run(arguments)


def _refuse(line: str) -> int:
    print(f"kvproto: {line}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    raise SystemExit(main())
