# pyright: basic, reportMissingImports=false
"""Asks sglang's real pools everything the tests want to know, in one process, as one JSON object.

`report.py` runs it with the interpreter of `.interop-venv`. A section that fails is reported as
`{"error": traceback}`, so that one broken part does not silence the others.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable, Iterable
from importlib.metadata import version

from typing_extensions import get_protocol_members, is_protocol

import kvproto.protocols
from kvproto.protocols import adopt, explain
from tests.interop import (
    account_faults,
    accounts,
    advertised,
    allocator_faults,
    allocators,
    block_scaled,
    census,
    commits,
    composites,
    faults,
    latent,
    layouts,
    pooled,
    pools,
    rocm,
    sparse,
)

PROTOCOLS = {
    name: value
    for name, value in sorted(vars(kvproto.protocols).items())
    if isinstance(value, type) and is_protocol(value) and value is not kvproto.protocols.Capability
}
UNDECLARED = ": not declared on the class"


def main() -> None:
    answers = {
        "versions": {name: version(name) for name in ("sglang", "torch")},
        "protocols": list(PROTOCOLS),
        "capabilities": _section(capabilities),
        "gates": _section(gates),
        "doors": _section(doors),
        "bases": _section(bases),
        "adopted": _section(adopted),
        "late": _section(late_attribute),
        "advertised": _section(advertised.refusals),
        "faults": _section(faults.reproduce),
        "allocators": _section(allocators.comparisons),
        "allocator breaks": _section(allocator_faults.breaks),
        "request pools": _section(allocator_faults.requests),
        "accounts": _section(accounts.comparisons),
        "account breaks": _section(account_faults.breaks),
        "latent": _section(latent.observed),
        "layouts": _section(layouts.observed),
        "rocm": _section(rocm.observed),
        "sparse": _section(sparse.observed),
        "pooled": _section(pooled.observed),
        "commits": _section(commits.observed),
        "block scales": _section(block_scaled.observed),
        "composites": _section(composites.observed),
        "census": _section(census.census),
    }
    json.dump(answers, sys.stdout)


def capabilities() -> dict[str, object]:
    """What is satisfied, by the objects and by the classes; and how near the rest is."""
    asked = pools.real_pools() | pools.real_objects()
    return {
        "instances": {
            name: {"satisfies": satisfied(thing), "near": near_misses(thing)}
            for name, thing in asked.items()
        },
        "classes": {cls.__name__: declared(cls) for cls in pools.pool_classes()},
    }


def satisfied(thing: object) -> list[str]:
    return [name for name, protocol in PROTOCOLS.items() if isinstance(thing, protocol)]


def declared(cls: type) -> list[str]:
    return [name for name, protocol in PROTOCOLS.items() if issubclass(cls, protocol)]


def near_misses(thing: object) -> dict[str, list[str]]:
    """The reasons where at most half of a protocol's members are at fault."""
    lines = {name: explain(thing, protocol) for name, protocol in PROTOCOLS.items()}
    return {
        name: why
        for name, why in lines.items()
        if why and 2 * len(_members_in(why)) <= len(get_protocol_members(PROTOCOLS[name]))
    }


def gates() -> dict[str, list[str]]:
    """sglang's own answer: the classes that each pool is an instance of."""
    return {name: _bases(type(pool)) for name, pool in pools.real_pools().items()}


def doors() -> dict[str, list[str]]:
    """Per protocol, the classes whose methods all fit, whatever their instances assign."""
    return {
        name: [cls.__name__ for cls in pools.pool_classes() if fits(cls, protocol)]
        for name, protocol in PROTOCOLS.items()
    }


def fits(cls: type, protocol: type) -> bool:
    return all(line.endswith(UNDECLARED) for line in explain(cls, protocol))


def bases() -> dict[str, list[str]]:
    """sglang's own answer for classes: what each is a subclass of, itself included."""
    return {cls.__name__: _bases(cls) for cls in pools.pool_classes()}


def adopted() -> dict[str, list[str]]:
    """What a class declares after one pool of it was adopted; tried on a subclass, so that no
    answer of sglang's own classes changes.
    """
    return {name: declared(_adopted_copy(pool)) for name, pool in pools.real_pools().items()}


def late_attribute() -> dict[str, list[bool]]:
    """Before and after the allocator's `register_mapping`: HiSparse pools get a member late."""
    import torch

    found = {}
    for name, pool in pools.real_pools().items():
        if type(pool).__name__ in ("HiSparseDSATokenToKVPool", "HiSparseC4DevicePool"):
            before = isinstance(pool, kvproto.protocols.HiSparse)
            pool.register_mapping(torch.zeros(8, dtype=torch.int64))
            found[name] = [before, isinstance(pool, kvproto.protocols.HiSparse)]
    return found


def _adopted_copy(pool: object) -> type:
    cls = type(type(pool).__name__, (type(pool),), {})
    twin: object = object.__new__(cls)
    vars(twin).update(vars(pool))
    return type(adopt(twin))


def _bases(cls: type) -> list[str]:
    return [base.__name__ for base in cls.__mro__ if base.__module__.startswith("sglang.")]


def _members_in(lines: Iterable[str]) -> set[str]:
    return {line.partition(":")[0] for line in lines}


def _section(make: Callable[[], object]) -> object:
    try:
        return make()
    except Exception:
        return {"error": traceback.format_exc()}


if __name__ == "__main__":
    main()
