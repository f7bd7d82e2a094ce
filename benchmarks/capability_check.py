"""What asking for a capability costs, in ratios to the gate that it replaces.

python -m benchmarks.capability_check [--rounds N] [--write]
"""

from __future__ import annotations

import argparse
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from kvproto.protocols import SWACapable, adopt, supports

from .report import machine_facts, markdown_table, print_table, write_section
from .timing import Timings, measure

__all__ = ["COMPARISONS", "Comparison", "main", "run"]


class EnginePool(ABC):
    """The root of an engine's pools: its metaclass is what makes today's gate what it is."""

    @abstractmethod
    def get_key_buffer(self, layer_id: int) -> object: ...


class ConcretePool(EnginePool):
    """What consumers ask for today."""

    def get_key_buffer(self, layer_id: int) -> object:
        return layer_id


class VendorPool(ConcretePool):
    """One level below it."""


class OtherPool(EnginePool):
    """A pool without a window space."""

    def get_key_buffer(self, layer_id: int) -> object:
        return layer_id


class Unassigning(OtherPool):
    """The methods of `SWACapable`, but not its data."""

    def register_mapping(self, full_to_swa_index_mapping: object) -> None: ...
    def translate_loc_from_full_to_swa(self, kv_indices: object) -> object: ...


class AdoptedUnassigning(Unassigning):
    """The same, to be adopted."""


class Declared(Unassigning):
    """All of it, on the class."""

    full_to_swa_index_mapping: object = None


class Assigning(Unassigning):
    """All of it, data assigned in `__init__` only, as every pool of sglang does."""

    def __init__(self) -> None:
        self.full_to_swa_index_mapping = None


class Adopted(Assigning):
    """The same, to be adopted."""


@runtime_checkable
class StockSWA(Protocol):
    """The members of `SWACapable` as `typing` alone checks them."""

    @property
    def full_to_swa_index_mapping(self) -> object: ...
    def register_mapping(self, full_to_swa_index_mapping: object, /) -> None: ...
    def translate_loc_from_full_to_swa(self, kv_indices: object, /) -> object: ...


@dataclass(frozen=True, slots=True)
class Pools:
    """What a configurator hands out: capabilities bound once."""

    swa: SWACapable | None


class Runner:
    """An object that holds a flag, as engines do."""

    def __init__(self) -> None:
        self.is_hybrid_swa = True


@dataclass(frozen=True, slots=True)
class Comparison:
    """`statement` in ratio to `to`; at most `limit` where one is demanded."""

    name: str
    statement: str
    to: str
    limit: float | None = None


HIT, MISS = "gate, hit", "gate, miss"
LOOKUP, FLAG = "look-up by type, called", "attribute test"

REFERENCES: Mapping[str, str] = {
    HIT: "isinstance(vendor, ConcretePool)",
    MISS: "isinstance(other, ConcretePool)",
    LOOKUP: "by_type(declared)",
    FLAG: "if runner.is_hybrid_swa: pass",
}

COMPARISONS = (
    Comparison("declared pool, hit", "isinstance(declared, SWACapable)", HIT, 1.0),
    Comparison("declared pool, miss", "isinstance(other, SWACapable)", MISS, 1.0),
    Comparison("adopted pool, hit", "isinstance(adopted, SWACapable)", HIT, 1.0),
    Comparison("adopted pool, miss", "isinstance(adopted_other, SWACapable)", MISS, 1.0),
    Comparison("unadopted pool, hit", "isinstance(assigning, SWACapable)", HIT, 1.0),
    Comparison("unadopted pool, miss", "isinstance(unassigning, SWACapable)", MISS, 1.0),
    Comparison("typing.Protocol, hit", "isinstance(declared, StockSWA)", HIT),
    Comparison("typing.Protocol, miss", "isinstance(other, StockSWA)", MISS),
    Comparison("beartype.typing.Protocol, hit", "isinstance(declared, BeartypeSWA)", HIT),
    Comparison("beartype.typing.Protocol, miss", "isinstance(other, BeartypeSWA)", MISS),
    Comparison("pools.swa is not None", "if pools.swa is not None: pass", FLAG, 1.5),
    Comparison("supports, hit", "supports(declared, SWACapable)", LOOKUP, 2.0),
    Comparison("supports, miss", "supports(other, SWACapable)", LOOKUP, 2.0),
    Comparison("supports, unadopted pool", "supports(assigning, SWACapable)", LOOKUP),
    Comparison("the look-up inline", "table[type(declared)]", LOOKUP),
)


def run(rounds: int) -> Timings:
    """Measure all of them in one go."""
    names = _names()
    comparisons = [c for c in COMPARISONS if "Beartype" not in c.statement or names["BeartypeSWA"]]
    statements = {**REFERENCES, **{c.name: c.statement for c in comparisons}}
    return measure(statements, names, rounds)


def _names() -> dict[str, Any]:
    table = {Declared: True, OtherPool: False}

    def by_type(pool: object) -> bool:
        return table[type(pool)]  # type: ignore[index]  # pyright: ignore[reportArgumentType]

    pools: dict[str, Any] = {
        "vendor": VendorPool(),
        "other": OtherPool(),
        "declared": Declared(),
        "assigning": Assigning(),
        "unassigning": Unassigning(),
        "adopted": adopt(Adopted()),
        "adopted_other": adopt(AdoptedUnassigning()),
    }
    bound = Pools(swa=pools["declared"])
    return {
        **pools,
        "pools": bound,
        "runner": Runner(),
        "table": table,
        "by_type": by_type,
        "ConcretePool": ConcretePool,
        "SWACapable": SWACapable,
        "supports": supports,
        "StockSWA": StockSWA,
        "BeartypeSWA": _beartype_protocol(),
    }


def _beartype_protocol() -> Any:
    """The same protocol on beartype's base; None where beartype is not installed."""
    try:
        from beartype.typing import Protocol as BeartypeProtocol
    except ModuleNotFoundError:
        return None

    @runtime_checkable
    class BeartypeSWA(BeartypeProtocol):
        @property
        def full_to_swa_index_mapping(self) -> object: ...
        def register_mapping(self, full_to_swa_index_mapping: object, /) -> None: ...
        def translate_loc_from_full_to_swa(self, kv_indices: object, /) -> object: ...

    return BeartypeSWA


def main() -> int:
    """Print the table; with --write also into docs/benchmarks.md. 1 where a limit is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=51, help="samples per statement")
    parser.add_argument("--write", action="store_true", help="update docs/benchmarks.md")
    options = parser.parse_args()
    timings = run(options.rounds)
    header, rows = ("asking", "statement", "ns", "ratio", "limit", "to"), _rows(timings)
    print_table(machine_facts(), header, rows)
    print(_over_limits(timings))
    if options.write:
        body = [_introduction(options.rounds), markdown_table(header, rows), _over_limits(timings)]
        write_section("capability_check", "\n\n".join(body))
    return 1 if _over(timings) else 0


def _rows(timings: Timings) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [
        (name, statement, f"{timings.nanoseconds(name):.0f}", "1.00", "", "")
        for name, statement in REFERENCES.items()
    ]
    for each in COMPARISONS:
        if each.name in timings.samples:
            time = f"{timings.nanoseconds(each.name):.0f}"
            ratio = f"{timings.ratio(each.name, each.to):.2f}"
            limit = "" if each.limit is None else f"{each.limit:.1f}"
            rows.append((each.name, each.statement, time, ratio, limit, each.to))
    return rows


def _over(timings: Timings) -> list[str]:
    return [
        each.name
        for each in COMPARISONS
        if each.limit is not None and timings.ratio(each.name, each.to) > each.limit
    ]


def _over_limits(timings: Timings) -> str:
    over = _over(timings)
    return f"Over its limit: {', '.join(over)}." if over else "All within their limits."


def _introduction(rounds: int) -> str:
    return f"""## What asking for a capability costs

`python -m benchmarks.capability_check --rounds {rounds} --write`, on {machine_facts()}.

The gate is `isinstance` on a concrete class of metaclass `ABCMeta`, through one level of
subclassing. An unadopted pool assigns its data members in `__init__` only, so that every check
looks into the instance; `kvproto.adopt(pool)` ends that, and a class-level annotation avoids it.
Ratios are medians over interleaved rounds of one run."""


if __name__ == "__main__":
    raise SystemExit(main())
