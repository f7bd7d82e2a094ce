"""Builds `.interop-venv`, where the interop tests have the real sglang and what it imports.

    python tests/interop/make_venv.py            build it, or do nothing when it is up to date
    python tests/interop/make_venv.py --status   say in one JSON line whether it can be used

Exit status 0: it is there, or cannot be on this platform (a line then says "did not run: ...").
Exit status 1: it could be but the installation failed; the next call starts anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
VENV = HERE.parents[1] / ".interop-venv"
STAMP = VENV / "complete"
REQUIREMENTS = HERE / "requirements"
# In this order: what sglang asks for names another torch, so it must not be resolved with it.
STEPS = (("torch.txt", ()), ("light.txt", ()), ("without-dependencies.txt", ("--no-deps",)))
# Most of it is never imported: what is, Python compiles then.
PIP_FLAGS = (
    "--quiet",
    "--no-input",
    "--no-compile",
    "--disable-pip-version-check",
    "--retries",
    "5",
)


def main(arguments: list[str]) -> int:
    why_not = cannot_run()
    if arguments == ["--status"]:
        print(json.dumps({"python": usable_python(), "why_not": why_not or not_built()}))
        return 0
    if why_not is not None:
        print(f"interop venv: did not run: {why_not}")
        return 0
    if usable_python() is not None:
        print("interop venv: up to date")
        return 0
    return build()


def cannot_run() -> str | None:
    """Why sglang's wheel cannot be used here (or may not be, by request); None when it can."""
    if os.environ.get("KVPROTO_INTEROP") == "skip":
        return "KVPROTO_INTEROP=skip is set"
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        return f"needs Linux on x86-64, this is {sys.platform} on {platform.machine()}"
    libc, version = platform.libc_ver()
    if libc != "glibc" or _numbers(version) < (2, 34):
        return f"needs glibc 2.34 or newer, this is {libc or 'another libc'} {version}".rstrip()
    if not interpreter():
        return "needs CPython 3.11, and there is no python3.11 on PATH"
    return None


def interpreter() -> str:
    """A CPython 3.11: this one, or the first on PATH; empty where there is none."""
    if sys.implementation.name == "cpython" and sys.version_info[:2] == (3, 11):
        return sys.executable
    return shutil.which("python3.11") or ""


def usable_python() -> str | None:
    """The interpreter of a complete environment that was built from today's pins."""
    python = VENV / "bin" / "python"
    current = STAMP.is_file() and STAMP.read_text() == fingerprint() and python.exists()
    return str(python) if current and cannot_run() is None else None


def not_built() -> str | None:
    """What to do about an environment that could be there and is not."""
    if usable_python() is not None:
        return None
    state = "is out of date" if STAMP.is_file() else "is not built"
    return f".interop-venv {state}: run `make interop-venv` (about 3 minutes, 2.6 GB)"


def fingerprint() -> str:
    """Changes with any pin and with the order and manner of installation."""
    pins = [file.read_bytes() for file in sorted(REQUIREMENTS.glob("*.txt"))]
    return hashlib.sha256(b"\0".join([repr(STEPS).encode(), *pins])).hexdigest()


def build() -> int:
    """Create the environment from nothing; the stamp is written last."""
    began = time.monotonic()
    print("interop venv: building .interop-venv (about 3 minutes, 2.6 GB)", flush=True)
    if not _run("an empty environment", [interpreter(), "-m", "venv", "--clear", str(VENV)]):
        return 1
    for name, flags in STEPS:
        if not _run(name, _pip_install(name, *flags)):
            return 1
    STAMP.write_text(fingerprint())
    print(f"interop venv: ready after {time.monotonic() - began:.0f} s", flush=True)
    return 0


def _pip_install(name: str, *flags: str) -> list[str]:
    pip = [str(VENV / "bin" / "python"), "-m", "pip", "install", *PIP_FLAGS, *flags]
    return [*pip, "-c", str(REQUIREMENTS / "constraints.txt"), "-r", str(REQUIREMENTS / name)]


def _run(what: str, command: list[str]) -> bool:
    """Run one step in silence; when it fails, show the end of what it said."""
    print(f"interop venv:   {what} ...", flush=True)
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        print(f"interop venv:   {what}: {time.monotonic() - began:.0f} s", flush=True)
        return True
    print("\n".join((done.stdout + done.stderr).splitlines()[-25:]))
    print(f"interop venv: {what} failed, see above; the next call starts anew", flush=True)
    return False


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
