"""One member of a pool, wrapped: checked against every protocol that names it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from inspect import BoundArguments, Parameter, Signature
from typing import Any

import torch

from ._binding import named_as, slots_of
from ._contract import Contract
from ._describe import describe_misfit
from ._fits import Fits
from ._rules import ARGUMENT_RULES, RESULT_RULES
from ._tensors import Fault
from ._violation import ContractViolation

__all__ = ["Checks", "checked_method", "checked_property"]

Call = tuple[Contract, Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class Checks:
    """What is asked of one member's calls.

    `signature` is the implementation's, without self. A caller may rely on any one of the
    protocols, so an argument must fit one of them; the pool serves them all, so its result
    must fit each. Every method raises `ContractViolation` for the first broken clause.
    """

    name: str
    contracts: tuple[Contract, ...]
    signature: Signature
    fits: Fits

    def bind(self, pool: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> BoundArguments:
        """The call as the implementation will see it."""
        try:
            return self.signature.bind(*args, **kwargs)
        except TypeError as error:
            expected = f"a call of {self.name}({', '.join(self.signature.parameters)})"
            raise self._violation(
                pool, Fault("arguments", expected, f"another ({error})")
            ) from None

    def arguments(self, pool: object, bound: BoundArguments) -> None:
        """Names and annotations first, then the rules for tensors."""
        calls = list(self._calls(bound))
        complete = [call for call in calls if not _left_out(call)]
        if not complete:
            contract, name = calls[0][0], _left_out(calls[0])[0]
            raise self._violation(pool, Fault(name, contract.texts[name], "nothing"))
        self._each_fits(pool, calls)
        for contract, values in complete:
            rule = ARGUMENT_RULES.get(f"{contract.owner}.{self.name}")
            if rule is not None:
                self._no_fault(pool, rule(pool, values))

    def result(self, pool: object, bound: BoundArguments, result: object) -> None:
        """What came back."""
        for contract, values in self._calls(bound):
            self._fits_result(pool, contract, "return value", result)
            rule = RESULT_RULES.get(f"{contract.owner}.{self.name}")
            if rule is not None:
                self._no_fault(pool, rule(pool, values, result))

    def data(self, pool: object, value: object) -> None:
        """The value of a data member."""
        for contract in self.contracts:
            self._fits_result(pool, contract, "value", value)

    def _calls(self, bound: BoundArguments) -> Iterator[Call]:
        for contract in self.contracts:
            yield contract, named_as(contract.signature or self.signature, bound)

    def _each_fits(self, pool: object, calls: Iterable[Call]) -> None:
        accepted: set[int | str] = set()
        refused: dict[int | str, Fault] = {}
        for contract, values in calls:
            for slot, name in slots_of(contract.signature or self.signature, values):
                hint = contract.hints.get(name, object)
                if self.fits(values[name], hint):
                    accepted.add(slot)
                else:
                    got = describe_misfit(values[name], hint)
                    refused[slot] = Fault(name, contract.texts[name], got)
        self._no_fault(pool, (fault for slot, fault in refused.items() if slot not in accepted))

    def _fits_result(self, pool: object, contract: Contract, what: str, value: object) -> None:
        hint = contract.hints.get("return", object)
        if not self.fits(value, hint):
            fault = Fault(what, contract.texts["return"], describe_misfit(value, hint))
            raise self._violation(pool, fault)

    def _no_fault(self, pool: object, faults: Iterable[Fault | None]) -> None:
        for fault in faults:
            if fault is not None:
                raise self._violation(pool, fault)

    def _violation(self, pool: object, fault: Fault) -> ContractViolation:
        return ContractViolation(type(pool).__name__, self.name, *fault)


def checked_method(call: Callable[..., Any], checks: Checks) -> Callable[..., Any]:
    """A method that checks, calls `call` with the pool and the arguments, and checks again.

    In compiled code it is `call` and nothing else.
    """

    def checked(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return call(self, *args, **kwargs)
        bound = checks.bind(self, args, kwargs)
        checks.arguments(self, bound)
        result = call(self, *args, **kwargs)
        checks.result(self, bound, result)
        return result

    return checked


def checked_property(plain: property, checks: Checks) -> property:
    """The same property, its value checked on every read."""
    read = plain.fget
    if read is None:
        return plain

    def checked(self: Any) -> Any:
        value = read(self)
        if not torch.compiler.is_compiling():
            checks.data(self, value)
        return value

    return property(checked, plain.fset, plain.fdel, plain.__doc__)


def _left_out(call: Call) -> list[str]:
    contract, values = call
    parameters = contract.signature.parameters.values() if contract.signature else ()
    return [
        p.name
        for p in parameters
        if p.name not in values and p.default is Parameter.empty and p.kind not in _VARIADIC
    ]


_VARIADIC = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
