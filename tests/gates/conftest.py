"""The small code base that most tests here look at."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvproto.gates import Profile
from tests.gates.small_profile import profile_of


@pytest.fixture
def engine(tmp_path: Path) -> Profile:
    """The profile of `engine`."""
    return profile_of(tmp_path)
