"""The section of docs/engine.md on scenarios, from `scenarios.json`.

python -m tests.interop.engine.scenarios_page     write it; `make engine` does, too
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.report import markdown_table, write_section
from tests.interop.engine.record import RESULT, ROUNDS, RUNS
from tests.interop.engine.scenarios import CHUNK, TOKENS

__all__ = ["PAGE", "section"]

PAGE = Path(__file__).parents[3] / "docs" / "engine.md"

TEXT = """\
## Scenarios of its scheduler

Written by `make engine`. Real sglang generates with greedy sampling in four runs, and every token
must be the same:

- a: sglang as its wheel has it, with its own pools;
- b: the rewritten tree, with sglang's own pools;
- c: the same tree, with pools of `kvproto.reference` through the plugin;
- d: as c, with `KVPROTO_DEBUG=1`: every call across a protocol boundary is validated.

A whole `Engine` of sglang {sglang} (torch {torch}, transformers {transformers}, triton {triton}):
tokenizer manager and scheduler in processes of their own, the radix cache on, prompts cut after
{chunk} tokens, {tokens} token slots, weights in float32. `-16` is a page size and `-fp8` the type
of the cache; else pages hold 1 token and the cache is float32. Every scenario begins with an empty
cache. What is in the last column was counted inside the scheduler, in run c, and without it no run
is taken for proved; [scenarios.json](../tests/interop/engine/scenarios.json) has it of every run.
After every batch, and when idle, sglang itself compared what is free, cached and in use with what
there is, and looked for slots freed twice; after every scenario all slots were free again.

Tokens have to depend on what the pools hold: one request of four, at most, may repeat a few tokens,
and a retracted one has to generate a dozen different ones after it comes back. A fifth engine, as
c, has a pool that zeroes the rows of a prefix that is found (a hybrid's: its states, and no row),
and those that a retracted request writes again: its tokens must differ.

Recorded with code `{code}`: of the rewritten tree, and of kvproto's protocols, reference pools,
adapter and validation, without comments and docstrings. The tests play one setting anew, which the
code they run with chooses, and say where that code is another.

Models are tiny, of random weights, and on a CPU: nothing here is about speed on a GPU. In all four
runs `torch_native` computes attention, patched for two faults of its own with windows and latent
rows (`tests/interop/engine/torch_native.py`), and Triton kernels run in the interpreter.

{scenarios}

### What it costs

The same four requests, to run a: seconds, the median of {rounds} rounds in each of which
the four engines, alive together, had their turn; and processor time of the scheduler, of all of
them, which other work on the machine disturbs less. sglang's checks after every batch are on
throughout, and on a CPU most of a step is sglang's own Python.

{costs}

### Which parts are whose

Classes in run c, by setting. sglang's own are the scheduler, with its radix cache and what is
evicted from it, and what is named above. In run d calls to the parts in the last column are
validated, and to no other.

{parts}
"""
CLOCKS = ("seconds", "processor")
WHAT = {
    "together": "four requests at once",
    "prefix": "a prompt, a longer one that begins with it, and that again after a flush",
    "chunks": "a prompt of three chunks and a part",
    "window": "a request that becomes six times as long as the window",
    "pressure": "five requests that want more slots than there are, and each alone",
}


def section() -> str:
    """The section's text."""
    told: dict[str, Any] = json.loads(RESULT.read_text())
    one = next(iter(told.values()))
    return TEXT.format(
        **one["started"]["a"]["versions"],
        chunk=CHUNK,
        tokens=TOKENS,
        rounds=ROUNDS,
        code=", ".join(sorted({each["code"] for each in told.values()})),
        scenarios=markdown_table(("pools", "scenario", "runs", "happened"), _scenarios(told)),
        costs=markdown_table(
            ("pools", *(f"{run}, {clock}" for clock in CLOCKS for run in RUNS[1:])), _costs(told)
        ),
        parts=markdown_table(("pools", "kvproto's", "sglang's", "validated in d"), _parts(told)),
    )


def _scenarios(models: dict[str, Any]) -> list[tuple[str, ...]]:
    return [
        (model, WHAT[name], _runs(told["scenarios"][name]), _happened(name, told))
        for model, told in models.items()
        for name in told["scenarios"]
    ]


def _runs(scenario: dict[str, Any]) -> str:
    return " / ".join(group["runs"] for group in scenario["tokens"])


def _happened(name: str, told: dict[str, Any]) -> str:
    proof = told["scenarios"][name]["proofs"]["c"]
    match name:
        case "together":
            return f"{proof['requests together']} requests in a batch"
        case "prefix":
            found = ", then ".join(str(number) for number in proof["cached"])
            return f"{found} tokens from the cache{_states(proof)}"
        case "chunks":
            return f"{proof['extend batches']} batches of at most {proof['largest extend']} tokens"
        case "window":
            return _window(proof)
        case _:
            return f"{proof['retractions']} retracted, {proof['requests together']} in a batch"


def _states(proof: dict[str, Any]) -> str:
    kept = proof.get("states cached before a flush")
    return "" if kept is None else f", {kept} states in it before a flush"


def _window(proof: dict[str, Any]) -> str:
    return (
        f"{proof['window slots freed']} window slots freed while it ran: "
        f"{proof['window slots in use']} in use at most, {proof['slots in use']} of full layers"
    )


def _costs(models: dict[str, Any]) -> list[tuple[str, ...]]:
    return [
        (model, *(f"{told[clock][run]:.2f}" for clock in CLOCKS for run in RUNS[1:]))
        for model, told in models.items()
        if "seconds" in told
    ]


def _parts(settings: dict[str, Any]) -> list[tuple[str, ...]]:
    return [
        (
            name,
            _classes(told["started"]["c"]["parts"], "kvproto."),
            _classes(told["started"]["c"]["parts"], "sglang."),
            ", ".join(told["started"]["d"]["validated"]),
        )
        for name, told in settings.items()
    ]


def _classes(parts: dict[str, str], whose: str) -> str:
    of_them = {name: path for name, path in parts.items() if path.startswith(whose)}
    return ", ".join(f"{name} `{path.rpartition('.')[2]}`" for name, path in of_them.items())


if __name__ == "__main__":
    write_section("scenarios", section(), PAGE)
