"""`kvproto platforms`: which are installed, whether their device is here, and its facts."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from kvproto._bad_input import BadInput
from kvproto.configurator import BuildError, find_capabilities
from kvproto.protocols import PlatformCapabilities

from .platform_named import absence, load_platform, platform_names

__all__ = [
    "FACTS",
    "LAYOUTS",
    "Listed",
    "facts_of",
    "layouts_of",
    "list_platforms",
    "listed_platforms",
]

FACTS = ("type", "page", "fp8", "Triton", "graphs", "fp8 DSA", "align", "offers")
"""The columns of `facts_of`."""

LAYOUTS = ("rows of heads", "latent rows")
"""Those of `layouts_of`."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A platform that is installed: why its device is not here, or ""; its facts, if it has any."""

    name: str
    absent: str
    facts: PlatformCapabilities | None


def listed_platforms() -> list[Listed]:
    """Every platform that the kit knows a name of, in alphabetical order."""
    return [_listed(name) for name in platform_names()]


def facts_of(facts: PlatformCapabilities) -> tuple[str, ...]:
    """Each fact as a table shows it."""
    return (
        facts.device_type,
        str(facts.default_page_size),
        facts.fp8_variant,
        "yes" if facts.supports_triton else "no",
        "yes" if facts.supports_graph_capture else "no",
        ", ".join(facts.dsa_rows) or "none",
        _bytes(facts.registration_alignment),
        ", ".join(sorted(facts.subsystems)) or "leaves",
    )


def layouts_of(facts: PlatformCapabilities) -> tuple[str, ...]:
    """How rows lie where a deployment asks for nothing, and how else latent rows may be asked for.

    The others are in brackets.
    """
    others = ", ".join(facts.other_latent_layouts)
    return facts.head_layout, f"{facts.latent_layout} ({others})" if others else facts.latent_layout


def list_platforms() -> int:
    """Print a row for each; the exit status."""
    listed, console = listed_platforms(), Console()
    facts, layouts = _table("platform", "here", *FACTS), _table("platform", *LAYOUTS)
    for each in listed:
        told = ("", "") if each.facts is None else layouts_of(each.facts)
        known = () if each.facts is None else facts_of(each.facts)
        facts.add_row(each.name, "no" if each.absent else "yes", *known)
        layouts.add_row(each.name, *told)
    for table in (facts, layouts):
        console.print(table)
        console.print()
    for each in listed:
        if each.absent:
            console.print(Text(f"{each.name} is not here: {each.absent}"), soft_wrap=True)
    return 0


def _table(*names: str) -> Table:
    return Table(*(Column(name, no_wrap=True) for name in names), box=None, padding=(0, 1, 0, 0))


def _listed(name: str) -> Listed:
    try:
        absent = absence(name)
    except BadInput as error:
        return Listed(name, str(error), None)
    return Listed(name, absent, _facts(name))


def _facts(name: str) -> PlatformCapabilities | None:
    """Stated for plans without the device, or the platform's own."""
    try:
        return find_capabilities(name)
    except BuildError:
        pass
    try:
        return load_platform(name).platform.capabilities
    except BadInput:
        return None


def _bytes(size: int) -> str:
    return f"{size >> 20} MiB" if size % (1 << 20) == 0 else f"{size} B"
