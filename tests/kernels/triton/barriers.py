"""Whether kernels that move rows wait between reading and writing, in what compilers wrote.

Rows may be targets and sources both: a thread must not write before others of its program have
read. On CUDA `bar.sync` orders global memory. On ROCm the fences around `s_barrier` do, but for
those that are restricted to local memory (`amdgpu-synchronize-as`), as the compiler's own are.
"""

from __future__ import annotations

import re

__all__ = ["accesses", "waits"]

_PTX = (("L", r"\bld\.global"), ("S", r"\bst\.global"), ("B", r"\bbar\.sync"))
_LLVM = (
    ("L", r"= load .*ptr addrspace\(1\)|\bcall .*buffer\.load"),
    ("S", r"\bstore .*ptr addrspace\(1\)|\bcall .*buffer\.store"),
    ("B", r"\bfence syncscope\(\"workgroup\"\) release(?!.*!mmra)"),
)


def accesses(text: str, backend: str) -> str:
    """Loads `L`, stores `S` and barriers of global memory `B`, in their order; `cuda` or `hip`."""
    kinds = _PTX if backend == "cuda" else _LLVM
    found = (
        next((kind for kind, pattern in kinds if re.search(pattern, line)), "")
        for line in text.splitlines()
    )
    return "".join(found)


def waits(order: str) -> bool:
    """Whether all loads are before a barrier and all stores behind it."""
    return re.search(r"^[^S]*L[^S]*B[^L]*S[^L]*$", order) is not None
