"""Runs a, b, c and d over configurations, compared token by token; the tables of docs/engine.md.

python -m tests.interop.engine.matrix --write      everything, in many minutes: `make engine-matrix`
python -m tests.interop.engine.matrix window fp8   those with both words in their names

Status 0: all runs of every configuration generated the same. 1: they did not, or one failed, or
sglang cannot run here. 2: there is no such configuration, or words with --write.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.report import markdown_table, write_section
from tests.interop import make_venv
from tests.interop.engine.configurations import MATRIX, Configuration
from tests.interop.engine.trees import Run, RunFailed, digest, rewritten, start

__all__ = ["Outcome", "outcomes"]

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parent / "results" / "engine.json"
PAGE = HERE.parents[2] / "docs" / "engine.md"
MODULE = "tests.interop.engine.in_process"
ROUNDS, REPEATS = 2, 2
"""How often the runs take turns, and how often each generates in its turn."""

Told = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """A configuration in every run: its tokens, the classes of its pools, what is seen of them by
    `kvproto.adapters.sglang` (kind and capabilities; nothing in run a), seconds computed.
    """

    name: str
    tokens: dict[str, list[list[int]]]
    pools: dict[str, dict[str, list[str]]]
    seen: dict[str, dict[str, tuple[str, list[str]]]]
    seconds: dict[str, list[float]]

    @property
    def equal(self) -> bool:
        """Did all runs generate the same?"""
        return all(tokens == self.tokens["a"] for tokens in self.tokens.values())

    @property
    def distinct(self) -> int:
        """Different tokens that run a generated."""
        return len({token for prompt in self.tokens["a"] for token in prompt})

    def ratio(self, over: Run, under: Run) -> float:
        """Seconds of one run by those of another: medians of all rounds."""
        return median(self.seconds[over]) / median(self.seconds[under])


def outcomes(
    python: str,
    chosen: Sequence[Configuration],
    *,
    rounds: int = 1,
    repeats: int = 1,
    beside: Sequence[str] = (),
    progress: int | None = None,
) -> tuple[list[Outcome], dict[str, Told]]:
    """Every configuration in every run, and what the forks of the last round told, by run.

    The latter have, of the configurations named in `beside`, two more: `leaves`, with sglang's
    own composites over our leaves, and `at_fault`, with a pool that drops writes. What begins is
    a line to the file descriptor `progress`, which must not be 0, 1 or 2.
    """
    told: dict[Run, list[Told]] = {"a": [], "b": [], "c": [], "d": []}
    last: Told = {}
    with tempfile.TemporaryDirectory() as folder:
        asked: Told = {
            "folder": folder,
            "names": [each.name for each in chosen],
            "repeats": repeats,
        }
        for number in range(1, rounds + 1):
            if progress is not None:
                asked["progress"] = [progress, f"round {number} of {rounds}, "]
            told["a"].append(_ask(python, "a", asked)["run"])
            told["b"].append(_ask(python, "b", asked)["run"])
            last = _ask(python, "c", asked | {"ours": True, "beside": list(beside)})
            told["c"].append(last["run"])
            told["d"].append(last["debug"])
    found = [_outcome(configuration.name, told) for configuration in chosen]
    by_run: dict[str, Told] = {run: answers[-1] for run, answers in told.items()}
    return found, by_run | {fork: last[fork] for fork in last.keys() - {"run", "debug"}}


def _ask(python: str, run: Run, asked: Told) -> Told:
    kept_open: list[int] = []
    if "progress" in asked:
        descriptor, where = asked["progress"]
        os.write(descriptor, f"{where}run {run}: starting\n".encode())
        kept_open = [descriptor]
    told = json.dumps(asked | {"run": run})
    return start(python, run, MODULE, told, seconds=3600, kept_open=kept_open)


def _outcome(name: str, told: dict[Run, list[Told]]) -> Outcome:
    by_run = {run: [answer["results"][name] for answer in answers] for run, answers in told.items()}
    return Outcome(
        name,
        {run: each[0]["tokens"] for run, each in by_run.items()},
        {run: each[0]["pools"] for run, each in by_run.items()},
        {run: each[0]["seen"] for run, each in by_run.items()},
        {run: [s for one in each for s in one["seconds"]] for run, each in by_run.items()},
    )


TEXT = """\
## Every kind of pool, in one process

Written by `{command}`, with sglang {sglang}, torch {torch}, transformers
{transformers} and triton {triton}. The runs are a: sglang as its wheel
has it, with its own pools; b: the rewritten tree, with its own pools; c: the same tree, with
kvproto's pools; d: as c, with `KVPROTO_DEBUG=1`. **{equal} of the {all} configurations that were
run generate the same tokens in all four**, {recorded}.

sglang's own `ModelRunner` and configurator build model, pools and allocator, and generate greedily
for a batch of prompts that end before, on and past the end of a page and of the window (both 16);
models are tiny and random. `heads` is Llama, `window` Cohere2 with layers in a window and without,
`latent` DeepSeek-V2, `hybrid` LFM2.

b/a and c/a are tokens per second of runs b and c by those of run a, where b has the same pools as a
and shows the noise; d/c how many times slower run d is than run c:
medians of {rounds} round(s) of the runs in turn, each of {repeats} generations, in seconds that the
process computed on one core, with the machine under a load average of {load}: the busier it is, the
rougher they are. Nothing here is about speed on a GPU, where kernels compute what PyTorch or the
interpreter computes here.

{table}

{missing}Beside these, not in `configurations.py`:

- `hybrid` with pages of 16: without an extra buffer for states sglang insists on pages of 1.
- Caches or weights of bf16 under Triton's attention: its interpreter computes nonsense with bf16.
  What goes through it has weights in float32.
- `hybrid` under Triton's attention: bf16 for the same reason, other caches were not tried.
- Sparse latent rows (DSA): their attention has kernels for CUDA only. The plugin's DSA leaf is
  built from what the configurator passes, without a forward pass.
- fp4 and mxfp8 rows, MiniMax's sparse rows, DeepSeek-V4, unified memory, HiSparse: sglang refuses
  them to any platform from outside.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """What `--help` says; the status is that of the process."""
    asked = _parser().parse_args(arguments)
    words: list[str] = asked.words
    if words and asked.write:
        return _refuse("--write: the page has every configuration, leave out the words")
    if unknown := [word for word in words if not any(word in each.name for each in MATRIX)]:
        return _refuse(f"no configuration has {unknown[0]!r} in its name: --help lists the names")
    chosen = [each for each in MATRIX if all(word in each.name for word in words)]
    if not chosen:
        return _refuse(f"no configuration has all of {', '.join(words)} in its name")
    python = make_venv.usable_python()
    if python is None:
        print(f"did not run: {make_venv.cannot_run() or make_venv.not_built()}")
        return 1
    return _run(python, chosen, once=asked.once, write=asked.write)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.interop.engine.matrix",
        description="Generate with the same models in four runs and compare token by token.\n"
        "a: sglang as it is; b: rewritten; c: with kvproto's pools; d: as c, with validation.\n"
        f"All {len(MATRIX)} configurations take more than 20 minutes; stderr says what begins.",
        epilog="configurations:\n" + "\n".join(f"  {each.name}" for each in MATRIX),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "words",
        nargs="*",
        metavar="WORD",
        help="only configurations with every word in their names, say `window fp8`; none: all",
    )
    parser.add_argument(
        "--once", action="store_true", help=f"each run has one turn instead of {ROUNDS}"
    )
    parser.add_argument(
        "--write",
        action="store_true",
        help="write docs/engine.md and its data, where all runs agree; takes no words",
    )
    return parser


def _refuse(why: str) -> int:
    print(why, file=sys.stderr)
    return 2


def _run(python: str, chosen: Sequence[Configuration], *, once: bool, write: bool) -> int:
    rounds = 1 if once else ROUNDS
    print("rewriting sglang, unless that is done", file=sys.stderr, flush=True)
    progress = os.dup(sys.stderr.fileno())
    try:
        rewritten(python)
        found, _ = outcomes(python, chosen, rounds=rounds, repeats=REPEATS, progress=progress)
    except RunFailed as failed:
        print(failed, file=sys.stderr)
        return 1
    finally:
        os.close(progress)
    for outcome in found:
        print(outcome.name, "equal" if outcome.equal else "DIFFERENT")
    if not all(outcome.equal for outcome in found):
        if write:
            print("--write: runs differ: nothing was written", file=sys.stderr)
        return 1
    if write:
        told = _as_data(python, found) | {"rounds": rounds, "command": _command(once)}
        told["load"] = f"{os.getloadavg()[2]:.1f} on {os.cpu_count()} cores"
        RESULTS.write_text(json.dumps(told, indent=1) + "\n")
        write_section("matrix", section(told), PAGE)
    return 0


def section(told: Told) -> str:
    """The part of the page."""
    header = ("configuration", "tokens", "distinct", "a = b = c = d", "b/a", "c/a", "d/c")
    rows = [_row(name, row) for name, row in told["configurations"].items()]
    equal = sum(row["equal"] for row in told["configurations"].values())
    counts = {"equal": equal, "all": len(rows), "repeats": REPEATS}
    counts |= {key: told[key] for key in ("rounds", "command", "load")}
    counts |= {"recorded": _recorded(told), "missing": _missing(told)}
    return TEXT.format(**told["versions"], **counts, table=markdown_table(header, rows))


def _recorded(told: Told) -> str:
    if "code" in told:
        return f"with code `{told['code']}` (as above)"
    return (
        "recorded before the code was noted, and with\nmodels whose weights spread less than "
        "those of `models.py` now"
    )


def _missing(told: Told) -> str:
    """What the page says of configurations without a row, by their backend: nothing of none."""
    names = [each.name for each in MATRIX if each.name not in told["configurations"]]
    if not names:
        return ""
    return (
        f"Not in the table, since they were not run when it was written: {len(names)} of "
        f"{len(MATRIX)}\nconfigurations, {', '.join(sorted({_part(name) for name in names}))}. "
        "A sample of them is in the tests.\n\n"
    )


def _part(name: str) -> str:
    return "/".join(name.split("/")[:2])


def _command(once: bool) -> str:
    return "python -m tests.interop.engine.matrix --write --once" if once else "make engine-matrix"


def _row(name: str, told: Told) -> tuple[str, ...]:
    counts = str(told["tokens"]), str(told["distinct"])
    equal = "yes" if told["equal"] else "NO"
    noise = f"{told['b/a']:.2f}" if "b/a" in told else "not recorded"
    ratios = noise, f"{told['c/a']:.2f}", f"{told['d/c']:.1f}"
    return name, *counts, equal, *ratios


def _as_data(python: str, found: Sequence[Outcome]) -> Told:
    site = next((Path(python).parents[1] / "lib").glob("python3.*/site-packages"))
    wheels = {
        wheel.metadata["Name"]: wheel.version for wheel in metadata.distributions(path=[str(site)])
    }
    names = ("sglang", "torch", "transformers", "triton")
    return {
        "code": digest(python),
        "versions": {name: wheels[name].partition("+")[0] for name in names},
        "configurations": {
            outcome.name: {
                "tokens": sum(len(prompt) for prompt in outcome.tokens["a"]),
                "distinct": outcome.distinct,
                "equal": outcome.equal,
                "b/a": round(outcome.ratio("a", "b"), 3),
                "c/a": round(outcome.ratio("a", "c"), 3),
                "d/c": round(outcome.ratio("d", "c"), 2),
            }
            for outcome in found
        },
    }


if __name__ == "__main__":
    sys.exit(main())
