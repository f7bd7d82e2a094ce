"""The one gate left for a person that a vendor's pools meet here, and a person's answer.

Where sglang takes a platform's class for a pool, it wants a subclass of its own, before there is a
pool to ask. The answer: the class has to have what attention needs of that kind of pool.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["apply"]

FILE = "mem_cache/kv_cache_configurator.py"
BEFORE = """_KV_POOL_BASE_FOR_KIND: dict[str, type] = {
    "mha": MHATokenToKVPool,
    "mla": MLATokenToKVPool,
    "dsa": DSATokenToKVPool,
}
"""
AFTER = """from kvproto.protocols import MHARows

_KV_POOL_BASE_FOR_KIND: dict[str, type] = {
    "mha": MHARows,
    "mla": MLALatent,
    "dsa": IndexerCapable,
}
"""


def apply(srt: Path) -> None:
    """Change the file of a rewritten tree.

    :raises ValueError: where it does not have the text, once.
    """
    file = srt / FILE
    text = file.read_text()
    if text.count(BEFORE) != 1:
        raise ValueError(f"{file}: the table of base classes is not as it was")
    file.write_text(text.replace(BEFORE, AFTER))
