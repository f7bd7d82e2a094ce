"""What LibCST's metadata cost beside a whole scan for gates by `ast`, in processor time.

python -m benchmarks.gates_scan PATH [--files N]

PATH is a source tree, say sglang's; the N files, by default 10, are those with the most gates.
LibCST parses each and resolves scopes and qualified names, from which a scan would then start.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from time import process_time

from libcst import parse_module
from libcst.metadata import MetadataWrapper, QualifiedNameProvider, ScopeProvider

from kvproto.gates import Profile, gates_of, load_profile, scan


def main() -> None:
    arguments = _arguments()
    profile = load_profile("sglang")
    gates = Counter(gate.file for gate in scan(arguments.path, profile).gates)
    files = [name for name, _ in gates.most_common(arguments.files)]
    sources = [(name, (arguments.path / name).read_text("utf-8")) for name in files]
    ours = _seconds(partial(_scan, profile), sources)
    theirs = _seconds(_metadata, sources)
    lines = sum(source.count("\n") for _, source in sources)
    print(f"{len(files)} files, {lines} lines: LibCST's metadata take {theirs / ours:.0f} scans")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--files", type=int, default=10)
    return parser.parse_args()


def _seconds(work: Callable[[str, str], object], sources: Sequence[tuple[str, str]]) -> float:
    began = process_time()
    for name, source in sources:
        work(name, source)
    return process_time() - began


def _scan(profile: Profile, name: str, source: str) -> object:
    return gates_of(source, name, profile)


def _metadata(_name: str, source: str) -> object:
    wrapper = MetadataWrapper(parse_module(source), unsafe_skip_copy=True)
    return wrapper.resolve_many([ScopeProvider, QualifiedNameProvider])


if __name__ == "__main__":
    main()
