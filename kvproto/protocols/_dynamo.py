"""`isinstance` inside torch.compile, for classes whose answer is per instance.

Dynamo folds `isinstance(x, P)` into a constant that it guards by the *type* of `x`, and for a
tuple, `isinstance(x, (P, Q))`, it does not even ask about `x` but calls `issubclass(type(x), ...)`.
Both would be wrong for a class that leaves a data member to its instances. So when the check is
called by Dynamo, the traced object is found in the caller's frame and a guard on its identity
is added to the compiled code. Nothing of torch is imported: if Dynamo runs, it already was.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

__all__ = ["traced_by_dynamo"]

_KNOWN_ISSUBCLASS = ("generic_issubclass", "call_issubclass")


def traced_by_dynamo(caller: FrameType, candidate: type) -> object | None:
    """The object Dynamo asks about, now guarded by identity; None when Dynamo is not the caller.

    :raises RuntimeError: when Dynamo asks in a way this version does not know, or about an
        object made inside the compiled region (which has no attributes yet to look at).
    """
    if not caller.f_globals.get("__name__", "").startswith("torch._dynamo."):
        return None
    if caller.f_code.co_name in _KNOWN_ISSUBCLASS:
        return None
    traced: Any = caller.f_locals.get("arg")
    source: Any = getattr(traced, "source", None)
    if source is None:
        raise RuntimeError(
            f"isinstance() in compiled code: {candidate.__name__} does not declare its data "
            "members on the class, so torch.compile cannot fold the answer; call "
            "kvproto.adopt(pool) before compiling, or annotate the members on the class"
        )
    guards: Any = sys.modules["torch._dynamo.guards"]
    guards.install_guard(source.make_guard(guards.GuardBuilder.ID_MATCH))
    value: object = traced.value
    return value
