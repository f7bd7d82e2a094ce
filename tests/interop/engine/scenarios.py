"""What a scheduler has to get right besides a forward pass, each with the proof that it happened.

Every scenario begins with an empty cache, talks to an engine through `generate` and `flush`, and
returns its greedy tokens and what the scheduler did meanwhile, from `observe.py` and from what
sglang says of each request. `proofs.py` says what must have happened; nothing here judges.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from tests.interop.engine.settings import Setting

__all__ = [
    "CHUNK",
    "LONG",
    "NEW_TOKENS",
    "PLAIN",
    "SCENARIOS",
    "SHARED",
    "TOKENS",
    "play",
    "scenarios_of",
]


class Serving(Protocol):
    """An engine with one model, in one of `SETTINGS`."""

    setting: Setting

    def generate(self, prompts: list[list[int]], new_tokens: list[int]) -> list[dict[str, Any]]: ...

    def flush(self) -> bool: ...

    def events(self) -> list[dict[str, Any]]: ...


def _prompt(seed: int, length: int) -> list[int]:
    draw = random.Random(seed)
    return [draw.randrange(3, 128) for _ in range(length)]


NEW_TOKENS = 24
PLAIN = [_prompt(seed, length) for seed, length in enumerate((12, 40, 7, 90))]
SHARED = _prompt(10, 80)
LONG = _prompt(11, 200)
CHUNK = 64
"""Tokens of a prompt that one forward pass takes."""
TOKENS = 288
"""Token slots of a pool: few, so that requests can be more than fit."""
CROWD = [_prompt(20 + seed, 16) for seed in range(5)]
CROWD_TOKENS = [8, 64, 64, 64, 110]
"""Four of five fit into 288 slots at once, 16 of a prompt and these. When the first is done, the
scheduler lets the last one in, since requests that may stop early often do: here none does. That
one has much to generate after it comes back, from rows that it has to write again."""


def play(serving: Serving, *names: str) -> dict[str, Any]:
    """These scenarios, or every one of the model's, by name."""
    return _played(serving, names or scenarios_of(serving.setting))


def scenarios_of(setting: Setting) -> tuple[str, ...]:
    """The names of those that say something of a model: `window` needs window layers."""
    return tuple(name for name in SCENARIOS if name != "window" or setting.model == "window")


def _played(serving: Serving, names: Iterable[str]) -> dict[str, Any]:
    told: dict[str, Any] = {}
    empty = next(event["stats"] for event in serving.events() if event["event"] == "ready")
    for name in names:
        serving.flush()
        seen = len(serving.events())
        tokens, said = SCENARIOS[name](serving)
        serving.flush()
        said |= {"new tokens": [len(each) for each in tokens]}
        said |= {"distinct": [len(set(each)) for each in tokens]}
        told[name] = {"tokens": tokens, "proof": said | _proof(serving.events()[seen:], empty)}
    return told


def _together(serving: Serving) -> tuple[list[list[int]], dict[str, Any]]:
    """Four requests at once: no more than that."""
    told = serving.generate(PLAIN, [NEW_TOKENS] * len(PLAIN))
    return [one["tokens"] for one in told], {}


def _prefix(serving: Serving) -> tuple[list[list[int]], dict[str, Any]]:
    """A prompt, then a longer one that begins with it: from the cache, and computed.

    A hybrid's, longer by two tokens: its convolutions reach back as far, and no further.
    """
    longer = SHARED + _prompt(12, 2 if serving.setting.model == "hybrid" else 20)
    (first,) = serving.generate([SHARED], [NEW_TOKENS])
    (found,) = serving.generate([longer], [NEW_TOKENS])
    flushed = serving.flush()
    (again,) = serving.generate([longer], [NEW_TOKENS])
    said = {
        "cached": [first["cached"], found["cached"], again["cached"]],
        "flushed": flushed,
        "same as computed": found["tokens"] == again["tokens"],
    }
    return [first["tokens"], found["tokens"], again["tokens"]], said


def _chunks(serving: Serving) -> tuple[list[list[int]], dict[str, Any]]:
    """A prompt longer than a forward pass takes."""
    (told,) = serving.generate([LONG], [NEW_TOKENS])
    return [told["tokens"]], {"prompt": len(LONG)}


def _window(serving: Serving) -> tuple[list[list[int]], dict[str, Any]]:
    """A request that becomes much longer than a window."""
    (told,) = serving.generate([_prompt(13, 24)], [72])
    return [told["tokens"]], {}


def _pressure(serving: Serving) -> tuple[list[list[int]], dict[str, Any]]:
    """More requests than fit, and each of them alone."""
    seen = len(serving.events())
    crowd = serving.generate(CROWD, CROWD_TOKENS)
    retracted = [e for e in serving.events()[seen:] if e["event"] == "retracted"]
    alone = []
    for prompt, new_tokens in zip(CROWD, CROWD_TOKENS, strict=True):
        serving.flush()
        alone += serving.generate([prompt], [new_tokens])
    said = {
        "retracted": [one["retracted"] for one in crowd],
        "distinct after it came back": [
            len(set(crowd[CROWD.index(one["prompt"])]["tokens"][one["generated"] :]))
            for event in retracted
            for one in event["of"]
        ],
        "retracted alone": [one["retracted"] for one in alone],
        "same as alone": [one["tokens"] for one in crowd] == [one["tokens"] for one in alone],
    }
    return [one["tokens"] for one in crowd], said


SCENARIOS: dict[str, Callable[[Serving], tuple[list[list[int]], dict[str, Any]]]] = {
    "together": _together,
    "prefix": _prefix,
    "chunks": _chunks,
    "window": _window,
    "pressure": _pressure,
}


def _proof(events: list[dict[str, Any]], empty: dict[str, int]) -> dict[str, Any]:
    """What the scheduler did, counted; `empty` are its numbers before the first request."""
    of = {name: [e for e in events if e["event"] == name] for name in _EVENTS}
    flushes = [e for e in of["flushed"] if e["done"]]
    extends = [b for b in of["batch"] if b["mode"] == "extend"]
    return {
        "extend batches": len(extends),
        "decode batches": len(of["batch"]) - len(extends),
        "largest extend": max(sum(b["tokens"]) for b in extends),
        "requests together": max(b["requests"] for b in of["batch"]),
        "slots in use": _most(of["batch"], "full_num_used"),
        "window slots in use": _most(of["batch"], "swa_num_used"),
        "window slots freed": sum(e["end"] - e["first"] for e in of["freed"]),
        "retractions": sum(e["requests"] for e in of["retracted"]),
        "given up": sum(e["given_up"] for e in of["retracted"]),
        "accounts checked": len(of["checked"]),
        "accounts wrong": sum(e["leak"] for e in of["checked"]),
        "flushes": len(flushes),
        "cached before a flush": max(
            (e["before"]["full_evictable_size"] for e in flushes), default=0
        ),
        "slots lost": sum(_lost(e, space, empty) for e in flushes for space in _SPACES),
    } | (_states(of["batch"], flushes) if "mamba_available_size" in empty else {})


def _states(batches: list[dict[str, Any]], flushes: list[dict[str, Any]]) -> dict[str, Any]:
    """Of a hybrid: slots of recurrent state that requests had, and that prefixes had."""
    kept = [e["before"]["mamba_evictable_size"] for e in flushes]
    return {
        "states in use": _most(batches, "mamba_num_used"),
        "states cached before a flush": max(kept, default=0),
    }


_EVENTS = ("batch", "freed", "retracted", "checked", "flushed")
_SPACES = ("full", "swa", "mamba")


def _most(batches: list[dict[str, Any]], name: str) -> int:
    in_use: int = max(batch["stats"].get(name, 0) for batch in batches)
    return in_use


def _lost(flush: dict[str, Any], space: str, empty: dict[str, int]) -> int:
    """Slots neither free nor cached before a flush, when no request runs, or not free after it."""
    all_of_them: int = empty.get(f"{space}_available_size", 0)
    before: dict[str, int] = flush["before"]
    after: dict[str, int] = flush["after"]
    free, cached = (before.get(f"{space}_{kind}_size", 0) for kind in ("available", "evictable"))
    return abs(all_of_them - free - cached) + all_of_them - after.get(f"{space}_available_size", 0)
