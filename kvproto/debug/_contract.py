"""What the protocols say of each member, with annotations resolved to run-time types."""

from __future__ import annotations

import builtins
import collections.abc
import functools
import inspect
import sys
import typing
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from kvproto import protocols
from kvproto.protocols import supports
from kvproto.protocols._capability import Capability, CapabilityMeta
from kvproto.protocols._members import declared_annotations, is_protocol, members_of

from ._violation import CannotValidate

__all__ = ["Contract", "all_protocols", "contracts_of", "protocols_of", "without_values"]


@dataclass(frozen=True, slots=True)
class Contract:
    """What one protocol says of one member.

    `owner` is the protocol that declares it, which may be one that the asked one extends.
    `signature` is what callers of a method pass (without self); None for data. `hints` are the
    types of its parameters and, as `return`, of its result or of the data; `texts` the same as
    written, for messages.
    """

    owner: str
    name: str
    signature: inspect.Signature | None
    hints: Mapping[str, object]
    texts: Mapping[str, str]


@functools.cache
def all_protocols() -> tuple[type, ...]:
    """Every capability that `kvproto.protocols` exports, in alphabetical order."""
    exported = (value for _, value in sorted(vars(protocols).items()))
    return tuple(
        value
        for value in exported
        if isinstance(value, CapabilityMeta) and is_protocol(value) and value is not Capability
    )


def protocols_of(pool: object) -> tuple[type, ...]:
    """The capabilities that the pool has."""
    return tuple(protocol for protocol in all_protocols() if supports(pool, protocol))


@functools.cache
def contracts_of(protocol: type) -> tuple[Contract, ...]:
    """One contract per member of the protocol.

    :raises CannotValidate: when an annotation names something that does not exist at run time.
    """
    return tuple(
        _contract(_owner_of(protocol, member.name), member.name, member.signature)
        for member in members_of(protocol)
    )


def without_values(contract: Contract) -> Contract:
    """The contract on a pool of latent rows, whose write door does not look at `cache_v`.

    It may be None there (`KVPool.set_kv_buffer`), which no annotation can say: pools are free to
    take tensors only.
    """
    if contract.name != "set_kv_buffer" or "cache_v" not in contract.hints:
        return contract
    hint: Any = contract.hints["cache_v"]
    text = f"{contract.texts['cache_v']} | None"
    return replace(
        contract,
        hints={**contract.hints, "cache_v": hint | None},
        texts={**contract.texts, "cache_v": text},
    )


def _owner_of(protocol: type, name: str) -> type:
    declares = (c for c in protocol.__mro__ if name in c.__dict__ or name in _annotated(c))
    return next(c for c in declares if is_protocol(c))


def _annotated(cls: type) -> Mapping[str, str]:
    return declared_annotations(cls) if is_protocol(cls) else {}


def _contract(owner: type, name: str, signature: inspect.Signature | None) -> Contract:
    declared = owner.__dict__.get(name)
    function = declared.fget if isinstance(declared, property) else declared
    if function is None:
        texts = {"return": _annotated(owner)[name]}
    else:
        texts = {key: str(text) for key, text in function.__annotations__.items()}
    hints = {key: _resolve(text, owner, name) for key, text in texts.items()}
    return Contract(owner.__name__, name, signature, hints, texts)


def _resolve(text: str, owner: type, name: str) -> object:
    try:
        hint: object = eval(text, {"__builtins__": {}}, _Names(owner.__module__))
    except NameError as error:
        raise CannotValidate(
            f"{owner.__name__}.{name}: cannot resolve the annotation {text!r}: {error}; "
            f"import the name at run time in {owner.__module__}"
        ) from None
    return type(None) if hint is None else hint


class _Names(dict[str, object]):
    """What an annotation of a module may name.

    Protocol modules import torch and each other for type checkers only: after the module's own
    names and the builtins, those are supplied here.
    """

    def __init__(self, module: str) -> None:
        super().__init__(vars(builtins))
        self.update(vars(sys.modules[module]))
        self["torch"] = torch

    def __missing__(self, name: str) -> object:
        for module in (protocols, torch, collections.abc, typing):
            if hasattr(module, name):
                return getattr(module, name)
        raise KeyError(name)
