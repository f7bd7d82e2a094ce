"""Where the environment cannot be, that is said: by the builder, its status and every test."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interop import make_venv

ROOT = Path(make_venv.__file__).parents[2]
WITHOUT = os.environ | {"KVPROTO_INTEROP": "skip"}


def test_builder_says_that_it_did_not_run() -> None:
    done = _run([make_venv.__file__])
    assert done.returncode == 0
    assert done.stdout == "interop venv: did not run: KVPROTO_INTEROP=skip is set\n"
    status = json.loads(_run([make_venv.__file__, "--status"]).stdout)
    assert status == {"python": None, "why_not": "KVPROTO_INTEROP=skip is set"}


def test_tests_are_skipped_with_the_reason() -> None:
    done = _run(["-m", "pytest", "-ra", "tests/interop/test_composites.py"])
    assert done.returncode == 0
    assert "sglang interop did not run: KVPROTO_INTEROP=skip is set" in done.stdout
    assert " skipped" in done.stdout
    assert "tests/interop: 0 passed without sglang" in done.stdout
    assert not re.search(r"[1-9]\d* passed", done.stdout)


@pytest.mark.parametrize(
    ("system", "machine", "libc", "why"),
    [
        ("darwin", "arm64", ("", ""), "needs Linux on x86-64, this is darwin on arm64"),
        ("linux", "aarch64", ("glibc", "2.39"), "needs Linux on x86-64, this is linux on aarch64"),
        ("linux", "x86_64", ("glibc", "2.31"), "needs glibc 2.34 or newer, this is glibc 2.31"),
        ("linux", "x86_64", ("", ""), "needs glibc 2.34 or newer, this is another libc"),
        ("linux", "x86_64", ("glibc", "2.34"), None),
    ],
)
def test_platforms_that_the_wheel_does_not_serve(
    monkeypatch: pytest.MonkeyPatch,
    system: str,
    machine: str,
    libc: tuple[str, str],
    why: str | None,
) -> None:
    monkeypatch.delenv("KVPROTO_INTEROP", raising=False)
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(platform, "libc_ver", lambda: libc)
    monkeypatch.setattr(make_venv, "interpreter", lambda: "python3.11")
    assert make_venv.cannot_run() == why


def test_another_pin_asks_for_another_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = make_venv.fingerprint()
    for file in make_venv.REQUIREMENTS.glob("*.txt"):
        (tmp_path / file.name).write_text(file.read_text())
    monkeypatch.setattr(make_venv, "REQUIREMENTS", tmp_path)
    assert make_venv.fingerprint() == before
    (tmp_path / "light.txt").write_text("numpy==0\n")
    assert make_venv.fingerprint() != before
    assert make_venv.usable_python() is None


def _run(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, env=WITHOUT, cwd=ROOT, capture_output=True, text=True, check=False
    )
