"""What the kit finds on each platform, as data: `platforms.json`, and the page `docs/platforms.md`.

python -m tests.conformance.platform_results --write [PLATFORM ...]   these, or all (minutes)
python -m tests.conformance.platform_results --page                   the page, what is built anew
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kvproto.conformance import Report, check_platform
from kvproto.conformance.capability_cells import capability_cells
from kvproto.conformance.platform_facts import facts_of, layouts_of
from kvproto.conformance.platform_named import Named, load_platform
from kvproto.conformance.platform_parts import PART_SPECS, is_of_platforms, parts_of, platform_laws
from kvproto.conformance.specs.models import MODEL_SPECS
from kvproto.conformance.worst import worst_status
from kvproto.protocols import Declined
from tests.conformance.platform_page import PAGE, rendered

__all__ = ["COLUMNS", "built_of", "loaded", "measured", "read_results", "stated"]

ROOT = Path(__file__).parents[2]
RESULTS = Path(__file__).parent / "platforms.json"

COLUMNS: Mapping[str, str] = {
    "cpu": "cpu",
    "cuda": "cuda",
    "rocm-gfx942": "rocm-gfx942",
    "rocm-gfx950": "rocm-gfx950",
    "npu": "npu",
    "musa": "musa",
    "acme": "acme_kv.platform:acme",
}
"""What the page calls each, and the name the kit finds it by; `acme` is that of examples/."""


def loaded(column: str) -> Named:
    """The platform of a column."""
    source = str(ROOT / "examples" / "acme" / "src")
    if source not in sys.path:
        sys.path.append(source)
    return load_platform(COLUMNS[column])


def measured(column: str) -> dict[str, Any]:
    """Everything the page says of a platform: a whole run of the kit."""
    platform = loaded(column).platform
    report = check_platform(platform)
    return _cheap(column) | {
        "capabilities": capabilities_of(report),
        "models": _models(report),
        "laws": _laws(report),
    }


def _cheap(column: str) -> dict[str, Any]:
    """What takes no law."""
    return {"facts": stated(column), "built": built_of(column)}


def stated(column: str) -> list[str]:
    """What the platform states of its device."""
    facts = loaded(column).platform.capabilities
    return [*facts_of(facts), *layouts_of(facts)]


def built_of(column: str) -> dict[str, list[str]]:
    """By geometry of leaves and allocators: the class that is built and "", or "" and why not."""
    factory = parts_of(loaded(column).platform)
    found: dict[str, list[str]] = {}
    for spec in PART_SPECS:
        if hasattr(spec.request, "page_size"):
            made = factory(spec.request)
            declined = isinstance(made, Declined)
            found[spec.name] = ["", made.reason] if declined else [type(made).__name__, ""]
    return found


def capabilities_of(report: Report) -> dict[str, dict[str, Any]]:
    """The state of each, with the number of laws kept or the names of those broken, and why."""
    return {
        name: {
            "state": cell.state,
            "laws": len(cell.laws) if cell.state == "kept" else list(cell.laws),
            "why": cell.why,
        }
        for name, cell in capability_cells(report).items()
    }


def _models(report: Report) -> dict[str, list[int]]:
    """By model: the deployments that were built, and those declined that could be planned."""
    built = {s.name: len(s.specs) for s in report.subjects if s.has("Platform")}
    declined = dict(report.declined)
    refused = [
        spec.request.model
        for spec in MODEL_SPECS
        if spec.name in declined and not declined[spec.name].startswith("cannot be planned")
    ]
    models = dict.fromkeys(spec.request.model for spec in MODEL_SPECS)
    return {model: [built.get(model, 0), refused.count(model)] for model in models}


def _laws(report: Report) -> dict[str, Any]:
    status = {law: worst_status(results) for law, results in report.by_law().items()}
    bad = ("failed", "unexpected", "blocked", "expected", "advisory")
    asked = [law for law, each in status.items() if each != "not asked"]
    models = {law.id for law in platform_laws() if is_of_platforms(law)}
    return {
        "parts": len(set(asked) - models),
        "models": len(set(asked) & models),
        "broken": [law for law, each in status.items() if each in bad],
    }


def read_results() -> dict[str, Any]:
    """What was measured last."""
    found: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    return found


def _keep(results: Mapping[str, Any]) -> None:
    ordered = {name: results[name] for name in COLUMNS if name in results}
    RESULTS.write_text(json.dumps(ordered, indent=1) + "\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", nargs="*", metavar="PLATFORM", choices=COLUMNS)
    parser.add_argument("--page", action="store_true")
    asked = parser.parse_args(arguments)
    results = read_results()
    if asked.write is not None:
        for column in asked.write or COLUMNS:
            print(column, flush=True)
            results[column] = measured(column)
            _keep(results)
    else:
        _keep({column: results[column] | _cheap(column) for column in results})
    PAGE.write_text(rendered(read_results()))
    return 1 if any(each["laws"]["broken"] for each in results.values()) else 0


if __name__ == "__main__":
    raise SystemExit(main())
