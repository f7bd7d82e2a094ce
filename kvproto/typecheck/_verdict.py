"""From the checkers' messages to a verdict per protocol and member."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from typing_extensions import get_protocol_members

from ._checkers import Message
from ._probe import Probe, Question

__all__ = ["Finding", "ProtocolVerdict", "judge", "outside"]

_NO_SUCH_MEMBER = ("attr-defined", "reportAttributeAccessIssue")
_ANYTHING = ("Any", "Unknown")


@dataclass(slots=True)
class Finding:
    """A member (or, where `member` is None, the class as a whole) that does not fit.

    `checkers` are those that say so.
    """

    member: str | None
    checkers: list[str]
    expected: str
    came: str
    why: str = ""


@dataclass(slots=True)
class ProtocolVerdict:
    """All that the checkers say of one class and one protocol.

    `unchecked` are members that checkers believe anything of: they have no annotations.
    `told` are members inherited from a protocol that was judged before.
    """

    protocol: str
    members: list[str]
    findings: list[Finding] = field(default_factory=list[Finding])
    unchecked: list[str] = field(default_factory=list[str])
    told: set[str] = field(default_factory=set[str])

    def fitting(self) -> list[str]:
        """The members nothing was found on, and that were checked."""
        out = {finding.member for finding in self.findings} | set(self.unchecked)
        return [member for member in self.members if member not in out]


def judge(
    cls: type, protocols: Sequence[type], probe: Probe, messages: Mapping[str, Sequence[Message]]
) -> list[ProtocolVerdict]:
    """One verdict per protocol, from each checker's messages on the probe."""
    answers = {checker: _by_question(said, probe) for checker, said in messages.items()}
    verdicts = [_judge(cls, protocol, answers) for protocol in protocols]
    told: set[tuple[type, str]] = set()
    for protocol, verdict in zip(protocols, verdicts, strict=True):
        declared = {(_owner(protocol, member), member) for member in verdict.members}
        verdict.told = {member for _, member in declared & told}
        told |= declared
    return verdicts


def outside(probe: Probe, messages: Iterable[Message]) -> list[Message]:
    """Errors on lines that ask nothing: the class could not be looked at (its import, its name)."""
    return [m for m in messages if m.line not in probe.questions and m.revealed is None]


_Answers = Mapping[Question, Sequence[Message]]


def _by_question(messages: Iterable[Message], probe: Probe) -> _Answers:
    answers: dict[Question, list[Message]] = {}
    for message in messages:
        if message.line in probe.questions:
            answers.setdefault(probe.questions[message.line], []).append(message)
    return answers


def _judge(cls: type, protocol: type, answers: Mapping[str, _Answers]) -> ProtocolVerdict:
    verdict = ProtocolVerdict(protocol.__name__, sorted(get_protocol_members(protocol)))
    for checker, said in answers.items():
        for finding in _findings(verdict, said):
            _join(verdict.findings, finding, checker)
    found = {finding.member for finding in verdict.findings}
    verdict.unchecked = [
        member
        for member in verdict.members
        if member not in found
        and (_is_unannotated(cls, member) or _is_unseen(verdict.protocol, member, answers.values()))
    ]
    return verdict


def _findings(verdict: ProtocolVerdict, answers: _Answers) -> list[Finding]:
    """Those of one checker; of the class as a whole only where no member explains it."""
    findings: list[Finding] = []
    for member in verdict.members:
        for error in answers.get(Question(verdict.protocol, member, "fits"), ())[:1]:
            findings.append(_member_finding(verdict.protocol, member, error, answers))
    if not findings:
        expected = f"a class that fits {verdict.protocol}"
        whole = answers.get(Question(verdict.protocol, None, "fits"), ())
        findings = [Finding(None, [], expected, error.text, error.why) for error in whole[:1]]
    return findings


def _member_finding(protocol: str, member: str, error: Message, answers: _Answers) -> Finding:
    expected = _revealed(answers, Question(protocol, member, "wanted"))
    if error.code in _NO_SUCH_MEMBER:
        return Finding(member, [], expected, "nothing, the class has no such member")
    came = _revealed(answers, Question(protocol, member, "given"))
    return Finding(member, [], expected, came, error.why)


def _revealed(answers: _Answers, question: Question) -> str:
    types = [m.revealed for m in answers.get(question, ()) if m.revealed is not None]
    return types[0] if types else "unknown"


def _join(findings: list[Finding], finding: Finding, checker: str) -> None:
    """Put two checkers' findings on one member together; the one that gives a reason words it."""
    finding.checkers.append(checker)
    for index, known in enumerate(findings):
        if known.member == finding.member:
            finding.checkers = known.checkers + finding.checkers
            findings[index] = finding if finding.why and not known.why else known
            findings[index].checkers = finding.checkers
            return
    findings.append(finding)


def _owner(protocol: type, member: str) -> type:
    return next(c for c in protocol.__mro__ if member in {*c.__dict__, *inspect.get_annotations(c)})


def _is_unannotated(cls: type, member: str) -> bool:
    value = inspect.getattr_static(cls, member, None)
    function = value.fget if isinstance(value, property) else value
    return inspect.isfunction(function) and not inspect.unwrap(function).__annotations__


def _is_unseen(protocol: str, member: str, answers: Iterable[_Answers]) -> bool:
    """Do all checkers take the member for anything, as below a base class they cannot find?"""
    given = Question(protocol, member, "given")
    return all(_revealed(said, given) in _ANYTHING for said in answers)
