"""The bar for moving rows: a C loop of one `memcpy` a row, compiled when it is asked for."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from torch import Tensor

__all__ = ["RowCopy", "row_loops"]

RowCopy = Callable[[Tensor, Tensor, Tensor], None]
"""Of a buffer, `[n]` int64 locations and `[n]` dense rows."""

_SOURCE = """
#include <string.h>
void scatter(char *buffer, const long long *loc, char *rows, long long n, long long bytes) {
    for (long long i = 0; i < n; i++) memcpy(buffer + loc[i] * bytes, rows + i * bytes, bytes);
}
void gather(char *buffer, const long long *loc, char *rows, long long n, long long bytes) {
    for (long long i = 0; i < n; i++) memcpy(rows + i * bytes, buffer + loc[i] * bytes, bytes);
}
"""


def row_loops() -> tuple[RowCopy, RowCopy] | None:
    """Rows into a buffer, and rows out of it; None without a C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    with tempfile.TemporaryDirectory() as scratch:
        source, library = Path(scratch, "rows.c"), Path(scratch, "rows.so")
        source.write_text(_SOURCE)
        command = [compiler, "-O3", "-march=native", "-shared", "-fPIC", "-o", str(library)]
        subprocess.run([*command, str(source)], check=True)
        loaded = ctypes.CDLL(str(library))
    return _copy(loaded.scatter), _copy(loaded.gather)


def _copy(loop: Callable[..., object]) -> RowCopy:
    def copy(buffer: Tensor, loc: Tensor, rows: Tensor) -> None:
        addresses = (ctypes.c_void_p(t.data_ptr()) for t in (buffer, loc, rows))
        n = loc.shape[0]
        loop(*addresses, ctypes.c_longlong(n), ctypes.c_longlong(rows.nbytes // n))

    return copy
