"""A plan for a person at a terminal (needs `rich`, the `check` extra)."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kvproto.protocols import (
    AllocatorRequest,
    HiSparseAllocatorRequest,
    PureSWAAllocatorRequest,
    ShardedAllocatorRequest,
    SWAAllocatorRequest,
    SWARingAllocatorRequest,
)

from .concurrency import Limit
from .ledger import Part
from .pool_plan import PlannedAllocator, PoolPlan
from .pool_tree import pool_tree
from .sizes_text import shown_bytes

__all__ = ["print_comparison", "print_plan"]

_BAR = 48
_NAMES: dict[Part, str] = {
    "full": "full rows",
    "window": "window rows",
    "draft": "draft rows",
    "state": "recurrent state",
    "draft_scratch": "draft scratch",
    "growth": "whichever grows",
    "compressed": "compressed rows",
    "unused": "unused",
}
_STYLES: dict[Part, str] = {
    "full": "blue",
    "window": "cyan",
    "draft": "magenta",
    "state": "green",
    "draft_scratch": "yellow",
    "growth": "bright_black",
    "compressed": "blue",
    "unused": "dim",
}
_KNOBS: dict[Limit, str] = {
    "max_running_requests": "raise --max-running",
    "tokens": "store rows in a smaller type (--kv-dtype), or give more --memory",
    "state_slots": "raise --state-ratio or --state-slots, or give --state-dtype bfloat16",
    "stated_slots": "raise --state-slots",
    "default": "state a number with --max-running",
}

_FREE_KNOBS: dict[Limit, str] = {
    "tokens": "raise --max-tokens",
    "state_slots": "give more --memory, or --state-dtype bfloat16",
}
"""Where tokens cost nothing: no store of rows is smaller, and state has all the memory."""


def print_plan(plan: PoolPlan, console: Console) -> None:
    """The pools, what they cost, where the memory goes, and what limits concurrency."""
    console.print(pool_tree(plan))
    console.print()
    console.print(_numbers([("", plan)]))
    console.print()
    console.print(_bar(plan))
    console.print(_shares(plan))
    console.print()
    console.print(_limit(plan))


def print_comparison(plans: Sequence[tuple[str, PoolPlan]], console: Console) -> None:
    """Several plans side by side, a column for each."""
    console.print(_numbers(plans))
    for name, plan in plans:
        console.print()
        console.print(Text(name, style="bold"))
        console.print(_bar(plan))
        console.print(_limit(plan))


def _numbers(plans: Sequence[tuple[str, PoolPlan]]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=len(plans) > 1)
    table.add_column("", no_wrap=True)
    for name, _ in plans:
        table.add_column(name, overflow="fold")  # cut off, columns look alike
    rows = {
        "bytes a token": [shown_bytes(plan.bytes_per_token) for _, plan in plans],
        "tokens": [f"{plan.tokens.full:,}" for _, plan in plans],
        "window tokens": [f"{plan.tokens.window:,}" for _, plan in plans],
        "pages": [f"{plan.allocator.size // plan.allocator.page_size:,}" for _, plan in plans],
        "state slots": [f"{plan.state.size:,}" if plan.state else "0" for _, plan in plans],
        "longest contexts": [_contexts(plan) for _, plan in plans],
        "requests at once": [
            f"{p.concurrency.max_running_requests:,}{_of_a_group(p)}" for _, p in plans
        ],
        "limited by": [p.concurrency.limit.replace("_", " ") for _, p in plans],
    }
    for name, cells in rows.items():
        if any(cell not in ("0", "") for cell in cells):
            table.add_row(Text(name, style="dim"), *cells)
    return table


def _contexts(plan: PoolPlan) -> str:
    """How many requests of the longest context what is lent is enough for, rounded down.

    Empty for windows alone, which hold no whole context.
    """
    if not plan.tokens.full:
        return ""
    contexts = _lent(plan.allocator) // plan.context_len
    return f"{contexts:,}{_of_a_group(plan)}" if contexts else "less than one"


def _lent(asked: PlannedAllocator) -> int:
    """Tokens that requests can hold together: those of all ranks that share them, and of a host."""
    match asked:
        case AllocatorRequest() | SWAAllocatorRequest():
            return asked.size
        case HiSparseAllocatorRequest():
            return asked.size_logical
        case SWARingAllocatorRequest(full=full):
            return full.size
        case ShardedAllocatorRequest():
            return asked.size_per_rank * asked.shard_size
        case PureSWAAllocatorRequest():
            return asked.size_swa


def _of_a_group(plan: PoolPlan) -> str:
    return " a group" if plan.concurrency.groups > 1 else ""


def _bar(plan: PoolPlan) -> Text:
    bar, drawn, seen = Text("  "), 0, 0
    for share in plan.shares:
        seen += share.bytes
        upto = round(_BAR * seen / plan.cache_bytes)
        mark = "░" if share.part == "unused" else "█"
        bar.append(mark * (upto - drawn), style=_STYLES[share.part])
        drawn = upto
    return bar.append(f"  {shown_bytes(plan.cache_bytes)} for caches")


def _shares(plan: PoolPlan) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    for share in plan.shares:
        part = f"{share.bytes / plan.cache_bytes:.1%}"
        mark = Text("■", style=_STYLES[share.part])
        table.add_row(Text("  ") + mark, _NAMES[share.part], shown_bytes(share.bytes), part)
    return table


def _limit(plan: PoolPlan) -> Text:
    running = plan.concurrency
    groups = f" in each of {running.groups} attention groups" if running.groups > 1 else ""
    line = f"{running.max_running_requests:,} requests at once{groups}, limited by "
    knob = _KNOBS[running.limit]
    if not plan.bytes_per_token and running.limit in _FREE_KNOBS:
        knob = _FREE_KNOBS[running.limit]
    return Text(line + f"{running.limit.replace('_', ' ')}: {knob}")
