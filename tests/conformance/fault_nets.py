"""Which net catches what public plugins got wrong: the table of `docs/faults.md`.

python -m tests.conformance.fault_nets --write
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from kvproto import debug
from kvproto.conformance.deployment import Deployer, Deployment
from kvproto.conformance.factory import Factory
from kvproto.conformance.kv_bench import LayerStub, WriteLoc
from kvproto.conformance.mutants import MUTANTS, Mutant
from kvproto.conformance.mutants import plugin_faults as faults
from kvproto.conformance.mutants.deployments import WrongPlatform
from kvproto.conformance.mutants.plugin_faults import PLUGIN_FAULTS, PluginFault
from kvproto.conformance.specs import spec_named
from kvproto.conformance.specs.models import deployment_named
from kvproto.protocols import (
    HostCopyable,
    KVLeaf,
    LayerIdReporting,
    LayerOverrideWrite,
    LeafRequest,
    MHARows,
    Movable,
    ScaledWrite,
    Transferable,
    explain,
)
from tests.devices.npu_faults import NPU_FAULTS
from tests.devices.processes import run_module
from tests.typecheck.checking import complaints

__all__ = [
    "CLAIMED",
    "PAGE",
    "SECTION",
    "Nets",
    "caught_by_checkers",
    "constructed",
    "nets_of",
    "of_devices",
    "of_plugins",
    "validated",
]

CLAIMED: tuple[type, ...] = (
    *(KVLeaf, MHARows, ScaledWrite, LayerOverrideWrite),
    *(Transferable, LayerIdReporting, HostCopyable, Movable),
)
"""What the pool is before anything is wrong with it."""

_GEOMETRIES = ("mha-bf16-page16-stage", "mha-fp8-e4m3fn-page16", "mha-fp8-e4m3fnuz-page4")
_DEPLOYMENTS = ("llama-page1", "llama-page16-stage2", "llama-page64-fp8")


@dataclass(frozen=True, slots=True)
class Nets:
    """What each said of a fault, in one line; "" for nothing."""

    checkers: str
    construction: str
    debug: str
    kit: str


@cache
def nets_of(fault: PluginFault) -> Nets:
    """All four."""
    name = fault.pool.__name__
    mutant = next(each for each in MUTANTS if each.name == name)
    return Nets(
        caught_by_checkers().get(name, ""),
        constructed(mutant.factory),
        validated(mutant.factory),
        held_to_the_kit(mutant),
    )


@cache
def caught_by_checkers() -> dict[str, str]:
    """By class: what mypy and pyright say of its source, without the ignores, and of its claims."""
    with TemporaryDirectory() as made:
        directory = Path(made)
        lines = _probe(directory)
        by_class: dict[str, dict[str, str]] = {}
        for checker in ("mypy", "pyright"):
            for said in complaints(checker, ["probe.py", "source.py"], directory):
                name = lines.get((said.file.name, said.line), "")
                text = f"{said.text.splitlines()[0]} [{said.code}]"
                by_class.setdefault(name, {}).setdefault(checker, text)
    return {
        name: "; ".join(f"{checker}: {text}" for checker, text in said.items())
        for name, said in by_class.items()
    }


def _probe(directory: Path) -> dict[tuple[str, int], str]:
    """Write what is given to the checkers; the class that each of its lines is about."""
    assert faults.__file__ is not None
    source = Path(faults.__file__).read_text()
    source = re.sub(r"  # (type|pyright): ignore\[.*", "", source)
    source = source.replace("from ..", "from kvproto.conformance.")
    source = source.replace("from .", "from kvproto.conformance.mutants.")
    (directory / "source.py").write_text(source)
    about = {
        ("source.py", line): node.name
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    names = ", ".join(protocol.__name__ for protocol in CLAIMED)
    probe = [f"from kvproto.protocols import {names}", f"import {faults.__name__} as faults"]
    for fault in PLUGIN_FAULTS:
        for protocol in CLAIMED:
            name = fault.pool.__name__
            probe.append(f"{name}_{protocol.__name__}: type[{protocol.__name__}] = faults.{name}")
            about["probe.py", len(probe)] = name
    (directory / "probe.py").write_text("\n".join(probe) + "\n")
    return about


def constructed(factory: Factory) -> str:
    """What building models says of it, or the first capability that a consumer will not find."""
    for name in _DEPLOYMENTS:
        deployment = Deployer(_platform_of(factory))(deployment_named(name).request)
        assert isinstance(deployment, Deployment)
        if deployment.failure:
            return deployment.failure
        assert deployment.built is not None
        for protocol in CLAIMED:
            if reasons := explain(deployment.built.pool, protocol):
                return f"not bound as {protocol.__name__}: {reasons[0]}"
    return ""


def _platform_of(factory: Factory) -> Any:
    class Builds(WrongPlatform):
        name = "plugin"

        def build_leaf(self, request: LeafRequest, /) -> Any:
            return factory(request)

    return Builds()


def validated(factory: Factory) -> str:
    """What debug mode says while it is used as its consumers do, or what it raises in any mode."""
    for name in _GEOMETRIES:
        request = spec_named(name).request
        leaf = factory(request)
        debug.validate(leaf)
        try:
            _used(leaf, request)
        except debug.ContractViolation as violation:
            return str(violation)
        except Exception as error:  # the fault shows itself, at the first call that meets it
            return f"raises in any mode: {type(error).__name__}: {error}"
    return ""


def _used(leaf: Any, request: Any) -> None:
    """A request's life: rows are written, read, exported, copied to the host and back, moved."""
    first = request.start_layer
    loc = torch.tensor([1, 2, request.size])
    k = torch.ones(3, request.head_num, request.head_dim, dtype=torch.bfloat16)
    v = torch.ones(3, request.head_num, request.value_head_dim, dtype=torch.bfloat16)
    for layer_id in range(first, first + request.layer_num):
        leaf.set_kv_buffer(LayerStub(layer_id), WriteLoc(loc), k, v)
        leaf.get_kv_buffer(layer_id)
    leaf.set_kv_buffer(LayerStub(first + 1), loc, k, v, layer_id_override=first)
    leaf.get_contiguous_buf_infos()
    leaf.get_kv_layer_ids()
    copied = leaf.get_cpu_copy(loc, mamba_indices=None)
    leaf.load_cpu_copy(copied, loc, mamba_indices=None)
    leaf.move_kv_cache(loc, loc.flip(0))


def held_to_the_kit(mutant: Mutant) -> str:
    """The law that must name it, and what it says."""
    broken = [r for r in mutant.report().failures if r.law == mutant.kills]
    return f"{mutant.kills}: {broken[0].detail}" if broken else ""


PAGE = Path(__file__).parents[2] / "docs" / "faults.md"

_HEAD = """# Faults of plugins, and the nets that catch them

What public plugins of engines got wrong when they brought pools of their own, each put into a pool
that is right otherwise (`kvproto/conformance/mutants/plugin_faults.py`), and thrown at four nets.
Written by `python -m tests.conformance.fault_nets --write`; tests derive every cell again.

- **Type checkers**: mypy and pyright, strict, on the plugin's source and on a line per capability,
  `_: type[HostCopyable] = TheirPool`, as in `typecheck/vendors/`.
- **Construction**: building models over the pool, or asking it for the capabilities that it had
  before the fault, which is what a consumer does when it is bound.
- **Debug mode**: a request's life under `KVPROTO_DEBUG=1`. What raises in any mode does so at the
  first call that meets it, which may be days into serving.
- **Kit**: the law that must name it, as `kvproto check` reports it.

A pool without annotations has no first net. Most of these faults give no error anywhere: every call
has the right types and shapes, and the answer is plausible. That is what the kit is for.
"""


SECTION = "## On Ascend devices\n"

_DEVICES = """
Calls of the vendor's operators, in the adapter of this repository with one name replaced
(`tests/devices/npu_faults.py`). No operator is called in host memory, so only a device shows it;
here that is an emulated one, whose operators demand what is documented of the vendor's. Blocks
of 16 elements are a matter of bytes, which every machine shows.

| fault | what was done | kit in host memory | kit on the emulated device |
|---|---|---|---|
"""


def of_devices(on_device: Mapping[str, Sequence[str]]) -> str:
    """The part of the page about devices, from what the kit says there."""
    rows: list[str] = []
    for each in NPU_FAULTS:
        said = _cell(_without_line(on_device[each.title][0]))
        rows.append(f"| {each.title} | {each.told} | nothing | {said} |")
    blocks = next(each for each in MUTANTS if each.name == "BlocksOf16Elements")
    told = "32 bytes of NZ order taken for 16 elements, whatever their size"
    rows.append(f"| {blocks.name} | {told} | {_cell(held_to_the_kit(blocks))} | the same |")
    return _DEVICES + "\n".join(rows) + "\n"


def _without_line(said: str) -> str:
    """Without where in the stand-in it was raised."""
    return re.sub(r" \(\w+\.py:\d+ in \w+\)$", "", said)


def of_plugins() -> str:
    """The part of the page about pools, which every machine derives."""
    lines = [_HEAD]
    for fault in PLUGIN_FAULTS:
        nets = nets_of(fault)
        lines += [
            f"## {fault.pool.__name__}",
            "",
            f"{fault.told[0].upper()}{fault.told[1:]}.",
            "",
            "| net | says |",
            "|---|---|",
            *(f"| {name} | {_cell(said)} |" for name, said in _named(nets)),
            "",
        ]
    return "\n".join([*lines[:1], *_summary(), *lines[1:]]) + "\n"


def _summary() -> Iterator[str]:
    yield "| fault | type checkers | construction | debug mode | kit |"
    yield "|---|---|---|---|---|"
    for fault in PLUGIN_FAULTS:
        marks = [_mark(said) for _, said in _named(nets_of(fault))]
        name = fault.pool.__name__
        yield f"| [{name}](#{name.lower()}) | {' | '.join(marks)} |"
    yield ""


def _named(nets: Nets) -> Sequence[tuple[str, str]]:
    return (
        ("type checkers", nets.checkers),
        ("construction", nets.construction),
        ("debug mode", nets.debug),
        ("kit", nets.kit),
    )


def _mark(said: str) -> str:
    return "raises" if said.startswith("raises in any mode") else "caught" if said else ""


def _cell(said: str) -> str:
    line = said if len(said) <= 300 else f"{said[:297]}..."
    return "`" + line.replace("|", "\\|") + "`" if said else "nothing"


def main(arguments: Sequence[str]) -> int:
    """Write the page."""
    if list(arguments) != ["--write"]:
        print(__doc__)
        return 2
    on_device = json.loads(run_module("npu", "tests.devices.npu_faults").splitlines()[-1])
    PAGE.write_text(of_plugins() + SECTION + of_devices(on_device))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
