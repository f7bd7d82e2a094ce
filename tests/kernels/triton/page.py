"""What kernels compile to, as it is kept: a file for each operation, and a page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.report import markdown_table
from tests.kernels.triton.narrow import NOT_ALIGNED, SCALAR

__all__ = ["PAGE", "Results", "read_results", "rendered", "write_results"]

Results = Mapping[str, Mapping[str, Any]]

_FOLDER = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[3] / "docs" / "kernels.md"

_HEAD = """# Kernels

On CUDA and ROCm, operations on pools are Triton kernels; everywhere else, and where Triton is
missing, torch operations with the same results do the work (`kvproto.kernels`). `pip install
'kvproto[triton]'` brings Triton, where torch has not brought it.

**Not measured on a GPU.** What is known without one:

- Interpreted, every kernel gives, byte for byte, what its torch twin gives, with the tiles of small
  batches and of large ones, and on 12 tokens reads and writes no more bytes than the operation has
  to move, times the factor that its case in `benchmarks/kernel_cases/` states
  (`tests/kernels/triton/interpreted/`). On 8192 tokens too, where eight programs stand for the
  others, and moves on 1000. What kernels that lend slots touch grows as the number of requests
  does.
- Compiled ahead of time for five GPUs, for the shapes of ten models: the table. No kernel spills
  a register, every kernel reads and writes 16 bytes at once where the strides, addresses and
  extents of its tensors allow that, and as many as they allow elsewhere; no address comes from a
  32-bit product, or from a 32-bit sum of what was read. Kernels that move rows have a barrier of
  global memory between reading and writing, or are two launches, of which one reads. `make
  kernels-results` compiles all again; `make test` one shape of each kernel, for a target of each
  vendor, and holds the rest to digests of the sources and of all that they are compiled for.

`benchmarks/gpu.py` checks them at those sizes, from captured graphs too, and measures them where a
GPU is at hand. It fails for a kernel that it did not reach.

How much of a batch a program has is a constant of each kernel's module, or two where batches of
4096 rows and more are served otherwise. Each is as small as gives every thread a wide access and as
large as spills nothing on the five targets. Nothing is timed when a kernel is first launched, so no
choice is there to be cached; with a GPU `benchmarks/gpu.py --tune` times tiles of a quarter to four
times the size, for the first case of each operation.

What no kernel of its own does, and why:

- Index keys of several tokens are pooled, turned and kept in rings by torch operations around one
  launch of `store_quantised_index_keys`: it is at most one row a request, so that a kernel would
  save launches alone, which a captured graph makes cheap.
- `prefix_locations` is a launch before that of a writer: every writer takes what it gives, and none
  is compiled a second time for commits.
- Rows in tiles are a launch for keys and one for values, unless fp8 is quantised on the way: then
  one launch does both (`store_fp8_tiled_row_sets`).
- More than 256 pairs are moved out into other memory and back, two launches for at most 256 MiB:
  there is no barrier across programs that is cheaper than the end of a launch.

Each line is one kernel on one target, over all shapes it was compiled for: the most registers of a
thread and bytes of shared memory; spilled registers; the widest load and store, in bytes, of
the shape where it is narrowest; and in how many shapes the memory of rows allows less than 16
bytes, which are left out of the two before, or "numbers", for a kernel that copies no rows.

"""

_NARROW = """
Memory allows less than 16 bytes where

{aligned}

and kernels of numbers read and write one at a time:

{scalar}
"""


def read_results() -> Results:
    """What is committed."""
    found: dict[str, Any] = {}
    for file in sorted(_FOLDER.glob("*.json")):
        found |= json.loads(file.read_text())
    return found


def write_results(results: Results) -> None:
    """Replace the files of the operations in `results`."""
    files: dict[str, dict[str, Any]] = {}
    for name, result in results.items():
        files.setdefault(name.partition(":")[0], {})[name] = result
    for operation, found in files.items():
        lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(found[name])}" for name in found)
        (_FOLDER / f"{operation}.json").write_text(f"{{\n{lines}\n}}\n")


def rendered(results: Results) -> str:
    """The page for results as `compiled.measured` gives them."""
    groups: dict[tuple[str, str], list[tuple[Any, Any]]] = {}
    for name, result in results.items():
        for target, found in result["targets"].items():
            key = name.partition(":")[0], target
            groups.setdefault(key, []).append((result["allowed"], found))
    header = (
        "kernel", "target", "shapes", "registers", "spills", "shared", "load", "store",
        "not aligned", "32-bit products",
    )  # fmt: skip
    rows = [(*key, *_cells(groups[key])) for key in sorted(groups, key=lambda key: key[0])]
    listed = {"aligned": _listed(NOT_ALIGNED), "scalar": _listed(SCALAR)}
    return _HEAD + markdown_table(header, rows) + "\n" + _NARROW.format(**listed)


def _listed(reasons: Mapping[str, str]) -> str:
    return "\n".join(f"- {name}: {reason}" for name, reason in reasons.items())


def _cells(group: list[tuple[Any, Any]]) -> tuple[str, ...]:
    found = [each for _, each in group]
    aligned = [each for allowed, each in group if not _is_narrow(allowed)] or found
    cells = (
        len(group),
        max(each["registers"] for each in found),
        sum(each["spills"] for each in found),
        max(each["shared"] for each in found),
        min(each["load"] for each in aligned),
        min(each["store"] for each in aligned),
        "numbers" if group[0][0] is None else sum(_is_narrow(allowed) for allowed, _ in group),
        sum(each["narrow"] for each in found),
    )
    return tuple(str(cell) for cell in cells)


def _is_narrow(allowed: list[int] | None) -> bool:
    """Whether memory allows less than 16 bytes; 0 is an access that is none of rows."""
    return allowed is not None and min(each for each in allowed if each) < 16
