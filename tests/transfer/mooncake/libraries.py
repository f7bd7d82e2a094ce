"""The system libraries that Mooncake needs, unpacked from Debian's packages and not installed.

    python tests/transfer/mooncake/libraries.py FOLDER

Downloads with apt-get what is not in FOLDER yet, unpacks it there, and writes into
FOLDER/library-path what LD_LIBRARY_PATH is to be, for Mooncake's processes alone. One line says
why where that is not to be had; the exit status is then 1.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

__all__ = ["PACKAGES", "Missing", "fetch", "main"]

PACKAGES = ("libibverbs1", "librdmacm1", "libnuma1", "libnl-3-200", "libnl-route-3-200")
"""What Mooncake is linked with, and what that is: Debian 12's names."""

_PROGRAMS = ("apt-get", "dpkg")


class Missing(Exception):
    """What is not to be had here, and what to do."""


def main(arguments: list[str]) -> int:
    """Fetch into the folder named; 1 where that cannot be."""
    if len(arguments) != 1:
        print("usage: libraries.py FOLDER", file=sys.stderr)
        return 2
    try:
        fetch(Path(arguments[0]))
    except Missing as missing:
        print(f"mooncake: did not run: {missing}", file=sys.stderr)
        return 1
    return 0


def fetch(folder: Path) -> None:
    """The packages into the folder; nothing where they are there. The path is written last.

    :raises Missing: in one line.
    """
    found = folder / "library-path"
    if found.is_file() and all(Path(each).is_dir() for each in found.read_text().split(os.pathsep)):
        return
    for program in _PROGRAMS:
        if shutil.which(program) is None:
            raise Missing(
                f"there is no {program}: Mooncake's libraries are fetched on Debian alone"
            )
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    _run(folder, "apt-get", "download", *PACKAGES)
    root = folder.resolve() / "root"
    for package in sorted(folder.glob("*.deb")):
        _run(folder, "dpkg", "-x", package.name, str(root))
    folders = sorted({str(each.parent) for each in root.rglob("lib*.so.*")})
    found.write_text(os.pathsep.join(folders))


def _run(folder: Path, *command: str) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith(("E:", "dpkg"))]
        said = lines[-1] if lines else f"status {done.returncode}"
        hint = (
            "; is apt's index here, as `apt-get update` brings it?" if "apt" in command[0] else ""
        )
        raise Missing(f"{' '.join(command[:2])}: {said}{hint}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
