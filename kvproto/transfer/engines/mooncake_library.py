"""Mooncake's library: whether it is here, and such that a write that is done is there."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module, metadata
from typing import Any

from .engine import EngineUnavailable

__all__ = ["load_mooncake", "quietly"]

_INSTALL = (
    "pip install mooncake-transfer-engine-non-cuda, and on Debian "
    "apt-get install libibverbs1 librdmacm1 libnuma1"
)
_DISTRIBUTIONS = tuple(
    f"mooncake-transfer-engine{suffix}" for suffix in ("-non-cuda", "", "-cuda13", "-npu")
)
_OLDEST = (0, 3, 12)
"""Over TCP, older ones call a write done when its last bytes have left, not when they are there:
https://github.com/kvcache-ai/Mooncake/pull/2850"""

_LOG_LEVEL, _TCP_PROTOCOL = "MC_LOG_LEVEL", "MC_TCP_PROTO"


def load_mooncake() -> Any:
    """Its engine's module.

    :raises EngineUnavailable: in one line that says what to do.
    """
    if os.environ.get(_TCP_PROTOCOL) == "1":
        raise EngineUnavailable(
            f"mooncake: {_TCP_PROTOCOL}=1 has writes called done before they are: unset it"
        )
    try:
        module = import_module("mooncake.engine")
    except ImportError as error:  # also of a library that is not there
        raise EngineUnavailable(f"mooncake: {error}: {_INSTALL}") from error
    for name in _DISTRIBUTIONS:
        if (version := _version(name)) is not None and _numbers(version) < _OLDEST:
            raise EngineUnavailable(
                f"mooncake: {name} {version} calls writes done before they are: pip install "
                f"'{name}>={'.'.join(map(str, _OLDEST))}'"
            )
    return module


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(each) for each in version.split(".")[:3] if each.isdecimal())


@contextmanager
def quietly() -> Generator[None]:
    """Mooncake reads how much to print when it begins; the environment stays as it was."""
    if _LOG_LEVEL in os.environ:
        yield
        return
    os.environ[_LOG_LEVEL] = "ERROR"
    try:
        yield
    finally:
        del os.environ[_LOG_LEVEL]
