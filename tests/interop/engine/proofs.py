"""Did what a scenario is about happen, and did nothing go wrong meanwhile? Asked of its record."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tests.interop.engine.scenarios import CHUNK, LONG, SCENARIOS, SHARED

__all__ = ["disproved"]

DISTINCT_AFTER = 12
"""Tokens that a retracted request has to vary by when it is back: else rows say nothing."""

Proof = dict[str, Any]


def disproved(scenario: str, proof: Proof) -> list[str]:
    """What is missing, or wrong, in words; empty where the scenario is proved."""
    asked = {**_ALWAYS, **_HAPPENED[scenario]}
    return [words for words, holds in asked.items() if not holds(proof)]


def _repeating(proof: Proof) -> int:
    """Requests of whose tokens less than a quarter are different: rows hardly matter to these."""
    counts = zip(proof["distinct"], proof["new tokens"], strict=True)
    return sum(4 * distinct < n for distinct, n in counts)


_ALWAYS: dict[str, Callable[[Proof], bool]] = {
    "sglang never compared its accounts of every slot": lambda p: p["accounts checked"] > 0,
    "sglang's accounts of its slots did not agree": lambda p: p["accounts wrong"] == 0,
    "the cache was not flushed": lambda p: p["flushes"] > 0,
    "nothing was cached before a flush": lambda p: p["cached before a flush"] > 0,
    "no slot of state was in use": lambda p: p.get("states in use") != 0,
    "no state was cached before a flush": lambda p: p.get("states cached before a flush") != 0,
    "requests repeat a few tokens": lambda p: 4 * _repeating(p) <= len(p["new tokens"]),
    "slots were lost": lambda p: p["slots lost"] == 0,
    "a request was given up": lambda p: p["given up"] == 0,
}
_HAPPENED: dict[str, dict[str, Callable[[Proof], bool]]] = {
    "together": {
        "requests did not run together": lambda p: p["requests together"] == 4,
    },
    "prefix": {
        "the first prompt was found in an empty cache": lambda p: p["cached"][0] == 0,
        "a shared prefix was not found": lambda p: p["cached"][1] == len(SHARED),
        "what was flushed was found": lambda p: p["cached"][2] == 0,
        "tokens differ with rows from the cache": lambda p: p["same as computed"],
    },
    "chunks": {
        "a long prompt was not cut": lambda p: (
            p["extend batches"] == math.ceil(len(LONG) / CHUNK) and p["largest extend"] <= CHUNK
        ),
    },
    "window": {
        "no window slot was freed while its request ran": lambda p: p["window slots freed"] > 0,
        "the window layers used as many slots as the others": lambda p: (
            0 < p["window slots in use"] < p["slots in use"]
        ),
    },
    "pressure": {
        "no request was retracted": lambda p: p["retractions"] > 0,
        "no request says that it was retracted": lambda p: any(p["retracted"]),
        "a retracted request repeats a few tokens": lambda p: (
            min(p["distinct after it came back"], default=0) >= DISTINCT_AFTER
        ),
        "a request was retracted with nothing beside it": lambda p: not any(p["retracted alone"]),
        "tokens differ without pressure": lambda p: p["same as alone"],
    },
}
assert set(_HAPPENED) == set(SCENARIOS)
