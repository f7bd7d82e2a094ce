"""The metaclass of every protocol here: `isinstance` by declarations, once per class.

Two stores. `_verdicts` is the truth: weak on both sides, so it keeps no class alive. `answers`
is the fast copy that a check reads with two dict look-ups keyed by type; it holds classes
strongly, and is therefore emptied at the start of every collection of older objects (classes
are only ever freed by one) and filled again from the truth.
"""

from __future__ import annotations

import gc
import sys
import threading
from abc import ABCMeta
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, cast
from weakref import WeakKeyDictionary, WeakSet

from ._dynamo import traced_by_dynamo
from ._members import is_protocol
from ._verdict import Verdict, attributes_of, decide

if TYPE_CHECKING:
    # The checkers know this name only; ABCMeta in its place upsets one of them.
    from typing import _ProtocolMeta as ProtocolMeta  # pyright: ignore[reportPrivateUsage]
else:
    ProtocolMeta = type(Protocol)

__all__ = ["Capability", "CapabilityMeta", "adopt_class", "answers", "forget_class", "verdict_on"]

answers: dict[type, dict[type, bool | Verdict]] = {}
_verdicts: WeakKeyDictionary[type, WeakKeyDictionary[type, Verdict]] = WeakKeyDictionary()
_assigned: WeakKeyDictionary[type, Mapping[str, object]] = WeakKeyDictionary()
_protocols: WeakSet[type] = WeakSet()
_lock = threading.RLock()
_caller = sys._getframe  # pyright: ignore[reportPrivateUsage]  # on every check: no inspect


class CapabilityMeta(ProtocolMeta):
    """Answers `isinstance` and `issubclass` for a protocol by members and signatures.

    For a class that implements a protocol (a nominal subclass) both mean what they always mean.
    """

    def __init__(cls, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if is_protocol(cls):
            _protocols.add(cls)

    # Defined here and not inherited: torch.compile consults the metaclass's own body only.
    def __instancecheck__(cls, instance: object) -> bool:
        try:
            answer = answers[cls][type(instance)]
        except KeyError:
            answer = _settle(cls, type(instance))
        if answer is True or answer is False:
            return answer
        caller = _caller(1)
        if "_dynamo" in caller.f_code.co_filename:
            traced_by_dynamo(caller, type(instance))
        return answer.holds_for(instance)

    def __subclasscheck__(cls, subclass: type) -> bool:
        if not is_protocol(cls):
            return ABCMeta.__subclasscheck__(cls, subclass)
        if not isinstance(subclass, type):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError("issubclass() arg 1 must be a class")
        answer = _settle(cls, subclass)
        if answer is True or answer is False:
            return answer
        traced = traced_by_dynamo(_caller(1), subclass)
        return traced is not None and answer.holds_for(traced)

    def __instancecheck_str__(cls, instance: object) -> str:
        """Why `instance` is not one, in one line: beartype puts it into its violations."""
        reasons = "; ".join(verdict_on(instance, cls)) or "no reason found"
        return f"{type(instance).__name__} is not {cls.__name__}: {reasons}"

    def register(cls, subclass: Any) -> Any:
        """Only for classes that implement a protocol: a protocol itself is never told who it is.

        :raises TypeError: on a protocol.
        """
        if is_protocol(cls):
            raise TypeError(
                f"{cls.__name__}.register({subclass.__name__}): a protocol answers by members; "
                f"give the class those that explain({subclass.__name__}, {cls.__name__}) names"
            )
        answers.clear()
        return super().register(subclass)


class Capability(Protocol, metaclass=CapabilityMeta):
    """Base of the protocols: subclass it together with `Protocol` to declare one more."""


def verdict_on(subject: object, protocol: type) -> list[str]:
    """One line per reason why `subject` (an object, or a class by its declarations) is not one."""
    cls = subject if isinstance(subject, type) else type(subject)
    verdict = _verdict(protocol, cls)
    if isinstance(subject, type):
        undeclared = verdict.pending + verdict.pending_nullable
        return [*verdict.faults, *(f"{name}: not declared on the class" for name in undeclared)]
    own = attributes_of(subject)
    missing = verdict.missing_from(own)
    return [
        *verdict.faults,
        *(f"{n}: {'is None' if n in own else 'missing'}" for n in missing),
    ]


def adopt_class(instance: object) -> None:
    """From now on every instance of the class is taken to assign what this one assigns.

    :raises ValueError: when the class was adopted through an instance that answers otherwise.
    """
    cls = type(instance)
    held = {name: value is not None or None for name, value in attributes_of(instance).items()}
    with _lock:
        before = _assigned.get(cls)
        for protocol in list(_protocols) if before is not None else []:
            was, now = (decide(cls, protocol, a).on_class() for a in (before, held))
            if was is not now:
                raise ValueError(
                    f"{cls.__name__} was adopted as {'' if was else 'not '}{protocol.__name__}, "
                    f"this instance answers otherwise; call forget({cls.__name__}) first"
                )
        forget_class(cls)
        _assigned[cls] = held


def forget_class(cls: type) -> None:
    """Drop what is remembered of a class and its subclasses (after members were patched in)."""
    with _lock:
        answers.clear()
        _assigned.pop(cls, None)
        for by_class in list(_verdicts.values()):
            for known in [known for known in by_class if cls in known.__mro__]:
                del by_class[known]


def _settle(cls: type, candidate: type) -> bool | Verdict:
    """The answer for all instances of `candidate`, or the verdict that an instance completes."""
    with _lock:
        if is_protocol(cls):
            verdict = _verdict(cls, candidate)
            settled = verdict.on_class()
            answer = verdict if settled is None else settled
        else:
            answer = ABCMeta.__subclasscheck__(cast("ABCMeta", cls), candidate)
        answers.setdefault(cls, {})[candidate] = answer
        return answer


def _verdict(protocol: type, candidate: type) -> Verdict:
    with _lock:
        by_class = _verdicts.get(protocol)
        if by_class is None:
            by_class = _verdicts[protocol] = WeakKeyDictionary()
        verdict = by_class.get(candidate)
        if verdict is None:
            verdict = decide(candidate, protocol, _assigned.get(candidate))
            by_class[candidate] = verdict
        return verdict


def _before_collection(phase: str, info: dict[str, int]) -> None:
    if phase == "start" and info["generation"] > 0:
        answers.clear()


gc.callbacks.append(_before_collection)
