"""The generated subclass of a pool's class, and the swap."""

from __future__ import annotations

import functools
import inspect
import threading
import types
from collections.abc import Callable, Mapping
from inspect import Parameter, Signature
from typing import Any, cast
from weakref import WeakValueDictionary

from kvproto.protocols import MLALatent, adopt
from kvproto.protocols._signature import without_self
from kvproto.protocols._verdict import attributes_of

from ._checked import Checks, checked_method, checked_property
from ._contract import Contract, contracts_of, protocols_of, without_values
from ._fits import Fits, make_fits
from ._probe import refuses
from ._rebuild import reduce_as
from ._violation import CannotValidate, ContractViolation

__all__ = ["swap_in_checks"]

_MARK = "_kvproto_checks"

# A generated class lives as long as a pool of it: weak values, since each holds its own key.
_generated: WeakValueDictionary[tuple[type, tuple[type, ...]], type] = WeakValueDictionary()
_lock = threading.RLock()


def swap_in_checks(pool: object) -> None:
    """Give the pool a class of the same name whose protocol members are checked.

    :raises CannotValidate: when that is impossible, or would leave a member unchecked.
    :raises ContractViolation: when a data member is not what its protocol says.
    """
    plain = _plain_class(pool)
    protocols = protocols_of(pool)
    if not protocols:
        raise CannotValidate(
            f"validate({plain.__name__}): it has no capability, so there is nothing to check; "
            "kvproto.explain(pool, KVLeaf) says what is missing"
        )
    members = _members(protocols)
    _refuse_shadowed(pool, members)
    generated = _generate(plain, protocols, members)
    _check_data(pool, generated)
    _swap(pool, plain, generated, protocols)


def _plain_class(pool: object) -> type:
    cls = type(pool)
    return cls.__bases__[0] if _MARK in cls.__dict__ else cls


def _members(protocols: tuple[type, ...]) -> Mapping[str, tuple[Contract, ...]]:
    """By member name, each contract once: protocols that extend another repeat its members."""
    found: dict[str, dict[str, Contract]] = {}
    latent = MLALatent in protocols
    for protocol in protocols:
        for contract in contracts_of(protocol):
            told = without_values(contract) if latent else contract
            found.setdefault(contract.name, {})[contract.owner] = told
    return {name: tuple(by_owner.values()) for name, by_owner in found.items()}


def _refuse_shadowed(pool: object, members: Mapping[str, tuple[Contract, ...]]) -> None:
    for name in attributes_of(pool):
        if name in members and members[name][0].signature is not None:
            raise CannotValidate(
                f"validate({type(pool).__name__}): {name} was replaced on the instance, where "
                "no check can see its calls; validate the pool first, or replace it on the class"
            )


def _generate(
    plain: type, protocols: tuple[type, ...], members: Mapping[str, tuple[Contract, ...]]
) -> type:
    with _lock:
        known = _generated.get((plain, protocols))
        if known is not None:
            return known
        fits = make_fits()
        checks = {name: _checks(plain, name, each, fits) for name, each in members.items()}
        generated = _subclass(plain, checks)
        _refuse_unchecked(plain, generated, checks)
        _generated[plain, protocols] = generated
        return generated


def _checks(plain: type, name: str, contracts: tuple[Contract, ...], fits: Fits) -> Checks:
    signature = without_self(inspect.getattr_static(plain, name, None))
    wanted = contracts[0].signature or Signature()
    return Checks(name, contracts, signature or wanted, fits)


def _subclass(plain: type, checks: Mapping[str, Checks]) -> type:
    body: dict[str, Any] = {
        "__slots__": (),  # no other layout than the pool's: `__class__` could not be assigned
        "__module__": plain.__module__,
        "__qualname__": plain.__qualname__,
        "__doc__": plain.__doc__,
        "__reduce_ex__": reduce_as(plain),
        _MARK: types.MappingProxyType(checks),
    }
    body.update((name, _wrapped(plain, each)) for name, each in checks.items())
    body = {name: value for name, value in body.items() if value is not None}
    try:
        generated = types.new_class(plain.__name__, (plain,), exec_body=lambda ns: ns.update(body))
    except Exception as error:
        raise CannotValidate(
            f"validate({plain.__name__}): the class cannot be subclassed ({error}); debug mode "
            "needs a class whose subclasses need no arguments"
        ) from error
    delattr(generated, "__slots__")  # pickle asks for the pool's own
    return generated


def _wrapped(plain: type, checks: Checks) -> object | None:
    """What replaces the member, or None for data that is no property: it is checked once."""
    declared = inspect.getattr_static(plain, checks.name, None)
    if checks.contracts[0].signature is None:
        return checked_property(declared, checks) if isinstance(declared, property) else None
    method = checked_method(_caller_of(plain, checks.name, declared), checks)
    functools.update_wrapper(method, cast("Callable[..., Any]", declared))
    own = Parameter("self", Parameter.POSITIONAL_ONLY)
    parameters = [own, *checks.signature.parameters.values()]
    vars(method)["__signature__"] = checks.signature.replace(parameters=parameters)
    return method


def _caller_of(plain: type, name: str, declared: object) -> Callable[..., Any]:
    """Calls the member as the class has it at that time: a later patch takes effect."""
    binds = hasattr(type(declared), "__get__")

    def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        member = getattr(plain, name)
        return member(self, *args, **kwargs) if binds else member(*args, **kwargs)

    return call


def _refuse_unchecked(plain: type, generated: type, checks: Mapping[str, Checks]) -> None:
    for name, each in checks.items():
        if each.contracts[0].signature is None:
            continue
        same = inspect.getattr_static(generated, name) is inspect.getattr_static(plain, name)
        if same or not refuses(each):
            raise CannotValidate(
                f"validate({plain.__name__}): the checks of {name} did not take: a wrong call "
                "was let through; is beartype switched off or replaced in this process?"
            )


def _check_data(pool: object, generated: type) -> None:
    checks: Mapping[str, Checks] = generated.__dict__[_MARK]
    for name, each in checks.items():
        if each.contracts[0].signature is None:
            each.data(pool, _read(pool, name))


def _read(pool: object, name: str) -> object:
    try:
        return getattr(pool, name)
    except Exception as error:
        reason = f"{type(error).__name__} when it was read"
        raise ContractViolation(type(pool).__name__, name, "value", "one", reason) from error


def _swap(pool: object, plain: type, generated: type, protocols: tuple[type, ...]) -> None:
    try:
        object.__setattr__(pool, "__class__", generated)
    except (TypeError, AttributeError) as error:
        raise CannotValidate(
            f"validate({plain.__name__}): its instances refuse another class ({error}); debug "
            "mode needs a class written in Python that does not override __class__"
        ) from None
    if any(issubclass(plain, p) and not issubclass(generated, p) for p in protocols):
        adopt(pool)
