"""Compiles the emulated device, once for its sources, this torch and this compiler's flags.

    python -m tests.devices.build_extension      prints the path of the library

It lies in `build/emulated_device/`. The library needs no Python, so environments with the same
torch share it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import torch

__all__ = ["NoCompiler", "library"]

SOURCES = Path(__file__).resolve().parent / "extension"
CACHE = Path(__file__).resolve().parents[2] / "build" / "emulated_device"
FLAGS = ("-std=c++20", "-O1", "-fPIC", "-shared", "-Wall", "-Wno-unused-parameter")


class NoCompiler(RuntimeError):
    """The emulated device cannot be built here; one line says why and what to do."""


def library() -> Path:
    """The compiled extension; built by the first that asks, while the others wait."""
    path = CACHE / f"{_key()}.so"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            _compile(path)
    return path


def _key() -> str:
    sources = [file.read_bytes() for file in sorted(SOURCES.iterdir())]
    which = [torch.__version__, str(torch.version.git_version), *FLAGS]
    return hashlib.sha256(b"\0".join([*sources, *map(str.encode, which)])).hexdigest()[:16]


def _compile(path: Path) -> None:
    """Under another name first: an interrupted compiler leaves nothing that looks finished."""
    compiler = os.environ.get("CXX", "g++")
    if shutil.which(compiler) is None:
        raise NoCompiler(
            f"the emulated device needs a C++ compiler, and there is no {compiler}: install g++ "
            "(apt-get install g++) or set CXX"
        )
    unfinished = path.with_suffix(".unfinished")
    done = subprocess.run(
        _command(compiler, unfinished), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr)
        raise NoCompiler(f"the emulated device did not compile: {first}")
    unfinished.replace(path)


def _command(compiler: str, path: Path) -> list[str]:
    root = Path(torch.__file__).parent
    abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
    headers = [root / "include", root / "include" / "torch" / "csrc" / "api" / "include"]
    systems = [flag for each in headers for flag in ("-isystem", str(each))]
    libraries = [f"-L{root / 'lib'}", "-lc10", "-ltorch_cpu"]
    return [
        compiler,
        *FLAGS,
        abi,
        *systems,
        str(SOURCES / "device.cpp"),
        "-o",
        str(path),
        *libraries,
    ]


if __name__ == "__main__":
    print(library())
