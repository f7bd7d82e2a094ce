# pyright: basic, reportMissingImports=false
"""Asks sglang's real objects every question as it was and as it is; prints one JSON object.

Runs in `.interop-venv`; its arguments are a file of questions and of modules to import, and perhaps
a folder with another sglang.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any


def main() -> None:
    asked = json.loads(Path(sys.argv[1]).read_text())
    sys.path[:0] = sys.argv[2:]
    from sglang.srt.mem_cache import swa_memory_pool

    from tests.interop import pools
    from tests.interop.gates.more_pools import more_objects

    more, refused = more_objects()
    built = pools.real_pools(), pools.real_objects(), more, {"None": None}
    objects = {name: made for group in built for name, made in group.items()}
    assert len(objects) == sum(map(len, built))
    told = {
        "sglang": swa_memory_pool.__file__,
        "imports": {module: imported(module) for module in asked["modules"]},
        "objects": {name: type(pool).__name__ for name, pool in objects.items()},
        "refused": refused,
        "table": of_table({cls for pool in objects.values() for cls in type(pool).__mro__}),
        "answers": [
            [[was(question, pool), now(question, pool)] for pool in objects.values()]
            for question in asked["questions"]
        ],
    }
    print(json.dumps(told))


def of_table(classes: set[type]) -> dict[str, list[str]]:
    """Of each kind, the classes that the table of a platform's pools lets through."""
    from sglang.srt.mem_cache.kv_cache_configurator import _KV_POOL_BASE_FOR_KIND

    return {
        kind: sorted({cls.__name__ for cls in classes if issubclass(cls, base)})
        for kind, base in _KV_POOL_BASE_FOR_KIND.items()
    }


def imported(module: str) -> str:
    """Empty, or what importing raised."""
    try:
        import_module(module)
    except Exception as error:  # of absent devices and packages: told, and compared
        return f"{type(error).__name__}: {error}"
    return ""


def was(question: dict[str, Any], pool: object) -> bool:
    """What isinstance, or a comparison of the type, or hasattr, said."""
    if question["attribute"]:
        return hasattr(pool, question["attribute"])
    theirs = [cls.__name__ for cls in type(pool).__mro__ if cls.__module__.startswith("sglang.")]
    looked_at = theirs[:1] if question["exact"] else theirs
    return bool(set(looked_at) & set(question["classes"]))


def now(question: dict[str, Any], pool: object) -> bool:
    """What the rewritten test says."""
    names = {name: getattr(import_module(module), name) for name, module in question["imports"]}
    return bool(eval(question["test"], names | {"pool": pool}))


if __name__ == "__main__":
    main()
