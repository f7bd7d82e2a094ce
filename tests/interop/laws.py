"""The kit's verdicts on sglang's real pools, as plain data."""

from __future__ import annotations

import re

from kvproto.conformance import LawResult, check_pool

from tests.interop import factories

__all__ = ["verdicts"]


def verdicts() -> dict[str, dict[str, object]]:
    """Per pool and law, the specs that passed; and those that did not, by what was found."""
    return {make.__name__: _by_law(check_pool(make).results) for make in _FACTORIES}


_FACTORIES = (factories.mha, factories.mla, factories.swa)


def _by_law(results: tuple[LawResult, ...]) -> dict[str, object]:
    found: dict[str, dict[str, dict[str, list[str]]]] = {}
    for result in results:
        by_status = found.setdefault(result.law, {}).setdefault(result.status, {})
        by_status.setdefault(_stable(result.detail), []).append(result.spec)
    return {law: _flat(by_status) for law, by_status in sorted(found.items())}


def _flat(by_status: dict[str, dict[str, list[str]]]) -> dict[str, object]:
    """Passing says no more than which specs did."""
    passed = by_status.pop("passed", {})
    return dict(by_status) | ({"passed": sum(passed.values(), [])} if passed else {})


def _stable(detail: str) -> str:
    """Without what differs from run to run or version to version: addresses and line numbers."""
    return re.sub(r"(?<=\.py):\d+", "", re.sub(r"\b\d{9,}\b", "<address>", detail))
