"""python -m tests.interop.differences [--write]"""

from __future__ import annotations

import sys

from .page import PAGE, rendered


def main(arguments: list[str]) -> int:
    """0: the page is current, or was written; 1: it is not; 2: the arguments are at fault."""
    if arguments not in ([], ["--write"]):
        print(f"{__doc__}", file=sys.stderr)
        return 2
    if arguments:
        PAGE.write_text(rendered())
    elif not PAGE.exists() or PAGE.read_text() != rendered():
        print(f"{PAGE.name} is not current: write it with --write", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
