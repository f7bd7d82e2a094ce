"""The section of docs/engine.md on scenarios, from `scenarios.json`.

python -m tests.interop.engine.scenarios_page     write it; `make engine` does, too
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.report import markdown_table, write_section
from tests.interop.engine.record import PLAYED, RESULT, RUNS
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
{chunk} tokens, {tokens} token slots. Every scenario begins with an empty cache. What is in the last
column was counted inside the scheduler, in run c, and without it no run is taken for proved;
[scenarios.json](../tests/interop/engine/scenarios.json) has it of every run. After every batch, and
when idle, sglang itself compared what is free, cached and in use with what there is, and looked for
slots freed twice; after every scenario all slots were free again.

Models are tiny, of random weights, and on a CPU: nothing here is about speed on a GPU. In all four
runs `torch_native` computes attention, patched for two faults of its own with windows and latent
rows (`tests/interop/engine/torch_native.py`), and Triton kernels run in the interpreter.

{scenarios}

### What it costs

The same four requests, to run a: seconds, the median of {rounds} rounds or more in each of which
the four engines, alive together, had their turn; and processor time of the scheduler, of all of
them, which other work on the machine disturbs less. sglang's checks after every batch are on
throughout, and on a CPU most of a step is sglang's own Python.

{costs}

{pools}
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
    models: dict[str, Any] = json.loads(RESULT.read_text())
    one = next(iter(models.values()))
    return TEXT.format(
        **one["started"]["a"]["versions"],
        chunk=CHUNK,
        tokens=TOKENS,
        rounds=min(PLAYED.values()),
        scenarios=markdown_table(("pools", "scenario", "runs", "happened"), _scenarios(models)),
        costs=markdown_table(
            ("pools", *(f"{run}, {clock}" for clock in CLOCKS for run in RUNS[1:])), _costs(models)
        ),
        pools=markdown_table(("pools", "a and b", "c and d"), _pools(models)),
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
            return f"{found} tokens from the cache"
        case "chunks":
            return f"{proof['extend batches']} batches of at most {proof['largest extend']} tokens"
        case "window":
            return _window(proof)
        case _:
            return f"{proof['retractions']} retracted, {proof['requests together']} in a batch"


def _window(proof: dict[str, Any]) -> str:
    return (
        f"{proof['window slots freed']} window slots freed while it ran: "
        f"{proof['window slots in use']} in use at most, {proof['slots in use']} of full layers"
    )


def _costs(models: dict[str, Any]) -> list[tuple[str, ...]]:
    return [
        (model, *(f"{told[clock][run]:.2f}" for clock in CLOCKS for run in RUNS[1:]))
        for model, told in models.items()
    ]


def _pools(models: dict[str, Any]) -> list[tuple[str, ...]]:
    return [
        (model, _classes(told["started"]["a"]), _classes(told["started"]["c"]))
        for model, told in models.items()
    ]


def _classes(started: dict[str, Any]) -> str:
    leaves = sorted({_name(leaf) for leaf in started["leaves"]})
    return f"`{_name(started['pool'])}`" + "".join(f" over `{leaf}`" for leaf in leaves)


def _name(path: str) -> str:
    return path.rpartition(".")[2]


if __name__ == "__main__":
    write_section("scenarios", section(), PAGE)
