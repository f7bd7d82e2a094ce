"""sglang as its wheel has it, or rewritten by `kvproto gates`, and how a process gets either.

`start("rewritten", "tests.interop.engine.in_process", ...)` runs a module in `.interop-venv`. The
rewritten tree is made once, under `build/engine/`, and anew when the wheel or `kvproto.gates`
changed.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from kvproto._version import __version__

__all__ = ["Run", "RunFailed", "digest", "end", "environment", "rewritten", "start"]

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
BUILD = ROOT / "build" / "engine"
Run = Literal["a", "b", "c", "d"]
"""a: sglang unmodified, with its own pools; b: rewritten, its own pools; c: rewritten, with pools
of kvproto's through the plugin; d: as c, with `KVPROTO_DEBUG=1`."""
_BOTH = {
    "CUDA_VISIBLE_DEVICES": "",
    "OMP_NUM_THREADS": "1",
    "PYTHONWARNINGS": "ignore",
    "TOKENIZERS_PARALLELISM": "false",
    "TORCHDYNAMO_DISABLE": "1",
    "TRITON_INTERPRET": "1",
}
_PLATFORM: dict[Run, dict[str, str]] = {
    "a": {"SGLANG_PLATFORM": "plain_cpu"},
    "b": {"SGLANG_PLATFORM": "plain_cpu"},
    "c": {"SGLANG_PLATFORM": "kvproto", "KVPROTO_SGLANG": "cpu"},
    "d": {"SGLANG_PLATFORM": "kvproto", "KVPROTO_SGLANG": "cpu", "KVPROTO_DEBUG": "1"},
}


class RunFailed(Exception):
    """A process ended badly; with the end of what it said."""


def start(
    python: str,
    run: Run,
    module: str,
    *arguments: str,
    seconds: int = 600,
    kept_open: Sequence[int] = (),
    **more: str,
) -> dict[str, Any]:
    """What a module prints last, an object of JSON; `more` goes to its environment.

    It runs in a process group of its own, since a failing engine kills its own tree. The file
    descriptors that are kept open have the same numbers in it.

    :raises RunFailed: for another exit status than 0, and for no object.
    """
    with tempfile.TemporaryDirectory() as scratch:
        process = subprocess.Popen(
            [python, "-m", module, *arguments],
            env=environment(python, run, scratch) | more,
            cwd=scratch,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
            pass_fds=kept_open,
        )
        try:
            out, err = process.communicate(timeout=seconds)
        finally:
            end(process)
    last = out.strip().splitlines()[-1:] if process.returncode == 0 else []
    if not last or not last[0].startswith("{"):
        said = "\n".join([*out.splitlines()[-10:], *err.splitlines()[-40:]])
        raise RunFailed(f"{module} ended with status {process.returncode} in run {run}:\n{said}")
    told: dict[str, Any] = json.loads(last[0])
    return told


def environment(python: str, run: Run, scratch: str) -> dict[str, str]:
    """What a process of a run needs; `scratch` is a folder that sglang may write to.

    kvproto is installed in all of them, as far as entry points tell: in a and b it must not matter.
    """
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SGLANG_", "KVPROTO_"))}
    first = [] if run == "a" else [str(rewritten(python))]
    path = [*first, str(HERE.parent / "site"), str(ROOT), str(_installed())]
    places = {"PYTHONPATH": os.pathsep.join(path), "SGLANG_CACHE_DIR": scratch, "HOME": scratch}
    return kept | _BOTH | _PLATFORM[run] | places


def rewritten(python: str) -> Path:
    """A folder with the package `sglang`: `srt` as `kvproto gates --apply` wrote it, and links."""
    (package,) = (Path(python).parents[1] / "lib").glob("python3.*/site-packages/sglang")
    made = BUILD / f"sglang-{_digest(package)}"
    if not made.is_dir():
        BUILD.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(dir=BUILD))
        try:
            _make(package, scratch / "sglang")
            scratch.rename(made)
        except OSError:
            if not made.is_dir():  # else another process was faster
                raise
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return made


def digest(python: str) -> str:
    """What a result of runs c and d depends on: the rewritten tree, and kvproto's code in it.

    Of the code it is the syntax tree without docstrings: comments and layout change nothing.
    """
    tree = rewritten(python) / "sglang" / "srt"
    sources = sorted(tree.rglob("*.py"))
    parts = [hashlib.sha256(b"\0".join(file.read_bytes() for file in sources)).hexdigest()]
    for package in ("protocols", "reference", "adapters/sglang", "debug"):
        files = sorted((ROOT / "kvproto" / package).rglob("*.py"))
        parts += [ast.dump(_undocumented(file)) for file in files]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def _undocumented(file: Path) -> ast.Module:
    tree = ast.parse(file.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            node.body = [
                each
                for each in node.body
                if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))
            ]
    return tree


def _make(package: Path, made: Path) -> None:
    made.mkdir()
    for child in package.iterdir():
        if child.name not in {"srt", "__pycache__"}:
            (made / child.name).symlink_to(child)
    command = [sys.executable, "-m", "kvproto.cli", "gates", str(package / "srt")]
    done = subprocess.run(
        [*command, "--apply", str(made / "srt")],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RunFailed(f"kvproto gates --apply:\n{(done.stdout + done.stderr)[-2000:]}")


def _digest(package: Path) -> str:
    """Changes with the wheel, with the tool that rewrites it, and with how that is done."""
    (record,) = package.parent.glob("sglang-*.dist-info/RECORD")
    tool = sorted(path for path in (ROOT / "kvproto/gates").rglob("*") if path.is_file())
    parts = [
        record,
        Path(__file__),
        *(p for p in tool if p.suffix in {".py", ".toml"}),
    ]
    return hashlib.sha256(b"\0".join(part.read_bytes() for part in parts)).hexdigest()[:16]


def _installed() -> Path:
    """A folder from which Python takes kvproto, and a platform without pools, for installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    plain = {"sglang.srt.platforms": {"plain_cpu": "tests.interop.engine.plain_cpu:activate"}}
    folder = BUILD / "installed"
    _install(folder, "kvproto", project["entry-points"])
    _install(folder, "plain_cpu", plain)
    return folder


def _install(folder: Path, name: str, groups: dict[str, dict[str, str]]) -> None:
    info = folder / f"{name}-{__version__}.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    lines = [
        line
        for group, points in groups.items()
        for line in (f"[{group}]", *(f"{key} = {value}" for key, value in points.items()))
    ]
    _write(info / "entry_points.txt", "\n".join(lines) + "\n")
    _write(info / "METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {__version__}\n")


def _write(file: Path, text: str) -> None:
    """At once: another process may read it."""
    if not file.is_file() or file.read_text() != text:
        with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False) as beside:
            beside.write(text)
        os.replace(beside.name, file)


def end(process: subprocess.Popen[str]) -> None:
    """The process and what it started; the group is its own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, 9)
    process.wait()
