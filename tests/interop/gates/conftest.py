"""One scan of the real sglang serves all tests here."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvproto.gates import Profile, Scan, load_profile, scan


@pytest.fixture(scope="session")
def sglang_srt(interop_python: str) -> Path:
    """The folder that the census was taken of."""
    lib = Path(interop_python).parents[1] / "lib"
    (package,) = lib.glob("python3.*/site-packages/sglang/srt")
    return package


@pytest.fixture(scope="session")
def sglang() -> Profile:
    """What is known of sglang."""
    return load_profile("sglang")


@pytest.fixture(scope="session")
def scanned(sglang_srt: Path, sglang: Profile) -> Scan:
    """Every gate in it."""
    return scan(sglang_srt, sglang)
