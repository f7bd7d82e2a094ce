"""Names of files, as a profile and as a scan write them."""

from __future__ import annotations

__all__ = ["file_is"]


def file_is(file: str, named: str) -> bool:
    """Whether a scanned file is the one a profile names, from wherever the scan started."""
    return file == named or named.endswith(f"/{file}") or file.endswith(f"/{named}")
