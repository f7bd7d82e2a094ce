# pyright: basic
"""Compiles launches ahead of time, for GPUs that are not there, and looks at what came out."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend
from triton.runtime.jit import JITFunction, create_function_from_signature

from kvproto.kernels.triton.launch import Launch
from tests.kernels.triton.assembly import gfx_accesses, gfx_number, sass_accesses, usage
from tests.kernels.triton.barriers import accesses, waits
from tests.kernels.triton.multiplies import narrow_multiplies

__all__ = ["TARGETS", "Compiled", "compile_launch", "compiled_for", "source_of"]

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "sm_100": GPUTarget("cuda", 100, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
    "gfx950": GPUTarget("hip", "gfx950", 64),
}

_MOVES = ("copy_slots_kernel", "move_index_keys_kernel", "move_row_sets_kernel")
"""Kernels that read rows which they also write."""

_BIN = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"


class Compiled(NamedTuple):
    """What a launch became on one target.

    `loads` and `stores` are the bytes of each global access, `narrow_multiplies` the lines of TTIR
    in which an address comes from a 32-bit product of something that is no constant.
    """

    registers: int
    spills: int
    shared: int
    loads: tuple[int, ...]
    stores: tuple[int, ...]
    narrow_multiplies: tuple[str, ...]


def compile_launch(launch: Launch, target_name: str) -> Compiled:
    """Compile for one of `TARGETS`, specialised as a launch there would be.

    :raises ValueError: for a kernel that moves rows and does not wait between reading and writing.
    """
    target = TARGETS[target_name]
    compiled = _compile(launch, target)
    if launch.kernel.__name__ in _MOVES:
        _check_waits(launch, compiled.asm, target)
    multiplies = tuple(narrow_multiplies(compiled.asm["ttir"]))
    shared = int(compiled.metadata.shared)
    if target.backend == "cuda":
        used, sass = _inspected(compiled.asm["cubin"])
        registers, stack = usage(used)
        loads, stores = sass_accesses(sass)
        return Compiled(registers, stack, shared, loads, stores, multiplies)
    text = compiled.asm["amdgcn"]
    registers = gfx_number(text, "vgpr_count")
    spills = gfx_number(text, "vgpr_spill_count") + gfx_number(text, "sgpr_spill_count")
    return Compiled(registers, spills, shared, *gfx_accesses(text), multiplies)


def source_of(kernel: JITFunction) -> str:
    """The source of a kernel and of every kernel that it calls, wherever they are in a file."""
    found: dict[str, str] = {}
    waiting = [kernel]
    while waiting:
        each = waiting.pop()
        if each.__name__ not in found:
            found[each.__name__] = each.src
            names = each.fn.__code__.co_names
            known = (each.fn.__globals__.get(name) for name in names)
            waiting += [other for other in known if isinstance(other, JITFunction)]
    return "\n".join(found[name] for name in sorted(found))


def _check_waits(launch: Launch, asm: dict[str, str], target: GPUTarget) -> None:
    order = accesses(asm["ptx" if target.backend == "cuda" else "llir"], target.backend)
    if not waits(order):
        raise ValueError(f"{launch.kernel.__name__} on {target}: no barrier in {order}")


def compiled_for(launch: Launch, target_name: str) -> str:
    """Types, constants, attributes and options that a launch is compiled for on a target.

    And which arguments are never specialised on. Libraries of the compiler are files of its own.
    """
    target, kernel = TARGETS[target_name], launch.kernel
    options, signature, constants, attributes = _specialised(launch, target)
    kept = {k: v for k, v in sorted(options.__dict__.items()) if k != "extern_libs"}
    plain = [
        (each.name, each.do_not_specialize, each.do_not_specialize_on_alignment)
        for each in kernel.params
    ]
    return repr((plain, signature, sorted(constants.items()), sorted(attributes.items()), kept))


def _compile(launch: Launch, target: GPUTarget) -> Any:
    options, signature, constants, attributes = _specialised(launch, target)
    source = ASTSource(launch.kernel, signature, constants, attributes)
    return triton.compile(source, target=target, options=options.__dict__)


def _specialised(launch: Launch, target: GPUTarget) -> tuple[Any, Any, Any, Any]:
    """What a launch there would be: options, signature, constants and attributes."""
    kernel, backend = launch.kernel, make_backend(target)
    bind = create_function_from_signature(kernel.signature, kernel.params, backend)
    given: dict[str, Any] = {
        **launch.arguments,
        **launch.constants_on(_architecture(target)),
        "num_warps": max(1, launch.threads // target.warp_size),
        "enable_fp_fusion": False,
    }
    bound, specialisation, options = bind(**given)
    packed: tuple[Any, Any, Any, Any] = kernel._pack_args(
        backend, options, bound, specialisation, options
    )
    return packed


def _architecture(target: GPUTarget) -> str:
    return f"sm_{target.arch}" if target.backend == "cuda" else str(target.arch)


def _inspected(cubin: bytes) -> tuple[str, str]:
    """What `cuobjdump -res-usage` and `nvdisasm -c` say."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        commands = (["cuobjdump", "-res-usage"], ["nvdisasm", "-c"])
        used, sass = (
            subprocess.run(
                [str(_BIN / name), flag, file.name], capture_output=True, text=True, check=True
            ).stdout
            for name, flag in commands
        )
    return used, sass
