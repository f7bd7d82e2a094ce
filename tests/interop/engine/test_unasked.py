"""Installing kvproto changes nothing for sglang, which is asked with it installed, and without."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from pathlib import Path
from typing import Any

from kvproto._version import __version__
from tests.interop.engine.trees import HERE, ROOT


def test_sglang_without_kvprotos_variable_is_as_without_kvproto(
    tmp_path: Path, interop_python: str
) -> None:
    alone, beside = (
        _told(interop_python, tmp_path),
        _told(interop_python, tmp_path, _installed(tmp_path)),
    )
    assert beside.pop("points") == ["kvproto", "kvproto_accounts", "kvproto_composites"]
    assert alone.pop("points") == []
    assert beside == alone
    assert alone["hooks"] == alone["pool"] == []


def test_a_device_that_only_sglang_was_told_of_is_none(tmp_path: Path, interop_python: str) -> None:
    """sglang logs what an entry point raises, and goes on without it."""
    beside = _told(interop_python, tmp_path, _installed(tmp_path), KVPROTO_SGLANG="gpu")
    assert beside["hooks"] == beside["pool"] == []
    assert "KVPROTO_SGLANG=gpu: there is a platform for cpu" in beside["said"]


def _told(python: str, scratch: Path, *first: Path, **more: str) -> dict[str, Any]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SGLANG_", "KVPROTO_"))}
    path = [*map(str, first), str(HERE.parent / "site"), str(ROOT)]
    places = {"PYTHONPATH": os.pathsep.join(path), "HOME": str(scratch)}
    done = subprocess.run(
        [python, "-m", "tests.interop.engine.unasked"],
        env=kept | places | {"CUDA_VISIBLE_DEVICES": ""} | more,
        cwd=scratch,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told | ({"said": done.stderr} if more else {})


def _installed(scratch: Path) -> Path:
    """A folder from which Python takes kvproto for installed, with its own entry points."""
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    lines = [
        line
        for group, named in points.items()
        for line in (f"[{group}]", *(f"{name} = {place}" for name, place in named.items()))
    ]
    info = scratch / "installed" / f"kvproto-{__version__}.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: kvproto\nVersion: {__version__}\n"
    )
    return info.parent
