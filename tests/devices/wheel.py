"""The real torch_npu wheel: downloaded once, kept in `build/`, looked into and never imported.

python -m tests.devices.wheel      prints where it is, its size and what fetching it took
"""

from __future__ import annotations

import fcntl
import subprocess
import sys
import time
import zipfile
from pathlib import Path

__all__ = ["PIECE", "VERSION", "CannotDownload", "library_bytes", "text", "wheel"]

VERSION = "2.14.0"
CACHE = Path(__file__).resolve().parents[2] / "build" / "torch_npu"
# The schemas are the same in the wheels of every Python; these have a Linux one on x86-64.
PYTHONS = ("311", "310", "312", "313")
PIECE = 16
"""Bytes that a compiler moves at once where it builds a string in place."""


class CannotDownload(RuntimeError):
    """The wheel is not here and pip did not get it; one line has pip's reason."""


def wheel() -> Path:
    """The wheel; fetched by the first that asks (44 MB), while the others wait."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _present() or _download()


def library_bytes(name: str) -> bytes:
    """A shared library of the wheel, as its bytes."""
    with zipfile.ZipFile(wheel()) as archive:
        return archive.read(f"torch_npu/lib/{name}")


def text(path: str) -> str:
    """A text file of the wheel."""
    with zipfile.ZipFile(wheel()) as archive:
        return archive.read(path).decode()


def _present() -> Path | None:
    return next(iter(CACHE.glob(f"torch_npu-{VERSION}-*.whl")), None)


def _download() -> Path:
    said = ""
    for python in PYTHONS:
        done = subprocess.run(_pip(python), capture_output=True, text=True, check=False)
        found = _present()
        if found is not None:
            return found
        said = (done.stdout + done.stderr).strip()
    why = said.splitlines()[-1] if said else "pip said nothing"
    raise CannotDownload(
        f"the wheel of torch-npu {VERSION} is not in {CACHE} and could not be downloaded: {why}"
    )


def _pip(python: str) -> list[str]:
    where = ["--platform", "manylinux_2_28_x86_64", "--python-version", python]
    flags = ["--no-deps", "--only-binary=:all:", "--quiet", "--disable-pip-version-check"]
    return [
        *(sys.executable, "-m", "pip", "download", *flags, *where),
        *("--dest", str(CACHE), f"torch-npu=={VERSION}"),
    ]


if __name__ == "__main__":
    began = time.monotonic()
    path = wheel()
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB, {time.monotonic() - began:.1f} s")
