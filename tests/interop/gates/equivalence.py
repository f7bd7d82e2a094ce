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
    questions = asked["questions"]
    sys.path[:0] = sys.argv[2:]
    from sglang.srt.mem_cache import swa_memory_pool

    from tests.interop import pools
    from tests.interop.gates.more_pools import more_objects

    more, refused = more_objects()
    objects = pools.real_pools() | pools.real_objects() | more | {"None": None}
    answers: list[dict[str, Any]] = [
        {"question": number, "object": name, "was": was(question, pool), "is": now(question, pool)}
        for number, question in enumerate(questions)
        for name, pool in objects.items()
    ]
    told = {
        "sglang": swa_memory_pool.__file__,
        "imports": {module: imported(module) for module in asked["modules"]},
        "objects": {name: type(pool).__name__ for name, pool in objects.items()},
        "refused": refused,
        "answers": len(answers),
        "yes": sum(answer["was"] for answer in answers),
        "asked with a yes": sorted({a["question"] for a in answers if a["was"]}),
        "different": [answer for answer in answers if answer["was"] != answer["is"]],
    }
    print(json.dumps(told))


def imported(module: str) -> str:
    """Empty, or what importing raised."""
    try:
        import_module(module)
    except Exception as error:  # of absent devices and packages: told, and compared
        return f"{type(error).__name__}: {error}"
    return ""


def was(question: dict[str, Any], pool: object) -> bool:
    """What isinstance, or a comparison of the type, said."""
    theirs = [cls.__name__ for cls in type(pool).__mro__ if cls.__module__.startswith("sglang.")]
    looked_at = theirs[:1] if question["exact"] else theirs
    return bool(set(looked_at) & set(question["classes"]))


def now(question: dict[str, Any], pool: object) -> bool:
    """What the rewritten test says."""
    names = {name: getattr(import_module(module), name) for name, module in question["imports"]}
    return bool(eval(question["test"], names | {"pool": pool}))


if __name__ == "__main__":
    main()
