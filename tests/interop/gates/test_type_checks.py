"""mypy finds nothing in a rewritten sglang that it did not find before: here of a few files.

All of them: `make gates-types`, whose result is docs/gates-types.md.
"""

from __future__ import annotations

import re
from pathlib import Path

from kvproto.gates import Profile
from kvproto.gates.rewrite_tree import Tree
from tests.interop.gates.type_checks import PAGE, errors_in, rewritten_by, strict

FEW = [
    "layers/attention/kv_shard_hooks.py",
    "mem_cache/base_swa_memory_pool.py",
    "mem_cache/buffer_mode/pipeline.py",
    "mem_cache/hicache_auto_size.py",
    "mem_cache/memory_pool.py",
    "mem_cache/pool_host/base.py",
    "mem_cache/pool_host/group.py",
    "mem_cache/swa_memory_pool.py",
]
"""They import the classes that they ask for from one another; mypy looks at nothing else."""


def test_a_few_rewritten_files_have_no_new_errors(
    sglang_srt: Path, sglang: Profile, rewritten: Tree
) -> None:
    before = errors_in(sglang_srt, {}, FEW, follow="skip")
    after = {file.file: file.after for file in rewritten.files if file.file in FEW}
    assert len(after) > 5
    assert errors_in(sglang_srt, after, FEW, follow="skip") - before == {}
    # Without the profile's concessions there are some: the comparison sees them.
    hard = errors_in(
        sglang_srt, rewritten_by(strict(sglang), sglang_srt, after), FEW, follow="skip"
    )
    beyond = " ".join(message for _, message in hard - before)
    assert '"MHARows" has no attribute "kv_cache_layout"' in beyond
    assert '"SharedHostArena" has no attribute "pool_label"' in beyond


def test_the_recorded_result_is_of_these_files_and_has_nothing_new(rewritten: Tree) -> None:
    told = re.search(
        r"^(\d+) files: (\d+) messages before, (\d+) after; 0 new", PAGE.read_text(), re.M
    )
    assert told is not None
    assert int(told[1]) == len(rewritten.changed)
    assert int(told[3]) <= int(told[2])


def test_every_concession_is_of_a_file_that_reads_more(sglang: Profile) -> None:
    page = PAGE.read_text()
    files = {file.removeprefix("srt/") for file, _, _ in sglang.modules_of_files}
    assert {file for file in files if file not in page} == set()
