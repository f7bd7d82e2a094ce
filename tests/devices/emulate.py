"""Runs code in a process where `npu:0` or `musa:0` is a device, emulated in host memory.

    python -m tests.devices.emulate npu -m pytest -q tests/adapters/npu/on_npu_leaf.py
    python -m tests.devices.emulate musa script.py arguments...

torch has room for one device type that it does not know, and its name cannot be changed twice: one
process, one vendor. For tests there is `tests/devices/processes.py`.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch.utils import backend_registration

from tests.devices.build_extension import NoCompiler, library
from tests.devices.runtime import EmulatedRuntime

__all__ = ["Vendor", "start"]

Vendor = Literal["npu", "musa"]
STANDINS = Path(__file__).resolve().parent / "standins"


def start(vendor: Vendor) -> None:
    """Make `vendor` a device of this process, with stand-ins for the vendor's Python packages.

    :raises NoCompiler: it was not built yet and cannot be; one line says why.
    """
    load: Any = torch.ops.load_library
    load(library())
    backend_registration.rename_privateuse1_backend(vendor)
    register: Any = torch._register_device_module
    register(vendor, EmulatedRuntime(vendor))
    backend_registration.generate_methods_for_privateuse1_backend()
    sys.path.insert(0, str(STANDINS / vendor))


def main(arguments: list[str]) -> None:
    """`VENDOR -m MODULE ...` or `VENDOR SCRIPT ...`, as Python's own command line has them."""
    match arguments:
        case ["npu" | "musa" as vendor, "-m", module, *_]:
            _start_or_exit(vendor)
            sys.argv = arguments[2:]
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case ["npu" | "musa" as vendor, script, *_]:
            _start_or_exit(vendor)
            sys.argv = arguments[1:]
            runpy.run_path(script, run_name="__main__")
        case _:
            vendors = "|".join(get_args(Vendor))
            sys.exit(f"usage: python -m tests.devices.emulate {vendors} [-m MODULE | SCRIPT] ...")


def _start_or_exit(vendor: Vendor) -> None:
    try:
        start(vendor)
    except NoCompiler as why:
        sys.exit(str(why))


if __name__ == "__main__":
    main(sys.argv[1:])
