"""The page `docs/platforms.md`, from what was measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kvproto.conformance.capability_cells import CAPABILITY_NAMES, NOWHERE
from kvproto.conformance.platform_facts import FACTS, LAYOUTS
from kvproto.conformance.specs import spec_named
from kvproto.conformance.specs.models import WAYS
from kvproto.protocols import DSALeafRequest, SparseIndexLeafRequest

__all__ = ["PAGE", "rendered"]

PAGE = Path(__file__).parents[2] / "docs" / "platforms.md"

_HEAD = """# Platforms

What the conformance kit finds on each platform that kvproto brings, and on a stranger's, the
package in [examples/acme](../examples/acme). Written by `make platforms`, which runs what
`kvproto check --platform all` runs: every law that binds a platform's leaves and allocators,
composites over its leaves, and whole models built with them. [kit.md](kit.md#platforms) says
what the words mean.

All of it was built in host memory, where operations are torch's. Nobody who wrote the adapters
for ROCm, NPU and MUSA has run them on such a device: what they say of hardware is from public
documents and sources. `kvproto platforms` tells which devices are here.

## Facts

What a platform states of its device, which decides what may be planned and built for it. `page`
and how rows lie are for deployments that ask for nothing; in brackets is what may be asked for.
"""

_CAPABILITIES = """
## Capabilities

A number is that of the laws that were asked and kept. Capabilities that only the core's parts
have (state, rows of requests, pairs of accounts) are judged in the models below.
"""

_BUILT = """
## What is built

The class of what serves a request; a number is the reason why it is declined.
"""

_MODELS = """
## Models

The deployments of each model that were built, of those that can be planned: {ways} ways to serve
it, in pages of 1 to 256 tokens, in every element type and layout. The others the platform
declined.
"""


class _Notes:
    """Reasons, numbered in the order in which they come up."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def number(self, reason: str, platform: str) -> str:
        """The note's number; reasons that differ in who gives them alone are one."""
        plain = reason.removeprefix(f"{platform}: ")
        return f"({self.numbers.setdefault(plain, len(self.numbers) + 1)})"

    def lines(self) -> Iterable[str]:
        """The notes."""
        yield ""
        for reason, number in self.numbers.items():
            yield f"{number}. {reason}"


def rendered(results: Mapping[str, Any]) -> str:
    """The whole page."""
    facts, told = {name: each["facts"] for name, each in results.items()}, (*FACTS, *LAYOUTS)
    notes, built = _Notes(), _Notes()
    had = {name for each in results.values() for name in each["capabilities"]}
    capabilities = [name for name in CAPABILITY_NAMES if name in had]
    kinds = _kinds(results)
    models = list(dict.fromkeys(m for each in results.values() for m in each["models"]))
    lines = [
        _HEAD,
        *_table("platform", told, facts, lambda fact, name: facts[name][told.index(fact)]),
        _CAPABILITIES,
        *_table(
            "capability",
            list(results),
            capabilities,
            lambda name, row: _cell(results[name]["capabilities"].get(row), notes, name),
        ),
        *notes.lines(),
        _BUILT,
        *_table(
            "request",
            list(results),
            kinds,
            lambda name, row: _served(results[name]["built"], kinds[row], built, name),
        ),
        *built.lines(),
        _MODELS.format(ways=len(WAYS)),
        *_table(
            "model", list(results), models, lambda name, row: _of(results[name]["models"][row])
        ),
        "",
        *_table(
            "laws kept",
            list(results),
            ("parts", "models", "broken"),
            lambda name, row: _laws(results[name]["laws"], row),
        ),
    ]
    return "\n".join(lines) + "\n"


def _table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[str],
    cell: Callable[[str, str], str],
) -> Iterable[str]:
    yield f"| {title} | {' | '.join(columns)} |"
    yield f"|---|{'---|' * len(columns)}"
    for row in rows:
        yield f"| {row} | {' | '.join(cell(column, row) for column in columns)} |"


def _cell(found: Mapping[str, Any] | None, notes: _Notes, platform: str) -> str:
    if found is None:
        return f"{NOWHERE.state} {notes.number(NOWHERE.why, platform)}"
    match found["state"]:
        case "kept":
            return f"kept {found['laws']}"
        case "offered":
            return "offered"
        case "broken" | "known":
            return f"breaks {', '.join(found['laws'])}"
        case state:
            return f"{state} {notes.number(found['why'], platform)}"


def _kinds(results: Mapping[str, Any]) -> dict[str, list[str]]:
    """Geometries by what is asked for: rows of one kind, in one layout, of one scheme."""
    kinds: dict[str, list[str]] = {}
    names = dict.fromkeys(name for each in results.values() for name in each["built"])
    for name in names:
        kinds.setdefault(_kind(name), []).append(name)
    return kinds


def _kind(name: str) -> str:
    request = spec_named(name).request
    if hasattr(request, "kind"):
        return f"an allocator, by {'page' if request.kind == 'paged' else 'token'}"
    rows = {"MHALeafRequest": "keys and values", "MLALeafRequest": "latents"}
    kind = rows.get(type(request).__name__, "latents, index keys")
    if isinstance(request, SparseIndexLeafRequest):
        kind = "keys and values, index rows"
    if isinstance(request, DSALeafRequest) and request.index_kpool > 1:
        kind = "latents, index keys of several tokens"
    element = str(request.dtype).removeprefix("torch.")
    scheme = "" if request.quant_scheme == "none" else f", {request.quant_scheme}"
    element = f", {element.removeprefix('float8_')}" if request.dtype.itemsize == 1 else ""
    element = "" if scheme.endswith(("fp4_mx16", "nvfp4", "mxfp8")) else element
    return f"{kind}, `{request.layout}`{scheme}{element}"


def _served(
    built: Mapping[str, list[str]], names: Sequence[str], notes: _Notes, platform: str
) -> str:
    classes = list(dict.fromkeys(built[name][0] for name in names if built[name][0]))
    reasons = list(dict.fromkeys(built[name][1] for name in names if built[name][1]))
    told = [f"`{cls}`" for cls in classes] + [notes.number(reason, platform) for reason in reasons]
    return " ".join(told)


def _of(built: Sequence[int]) -> str:
    made, declined = built
    return f"{made} of {made + declined}" if declined else f"{made}"


def _laws(laws: Mapping[str, Any], row: str) -> str:
    value = laws[row]
    return ", ".join(value) or "none" if row == "broken" else str(value)
