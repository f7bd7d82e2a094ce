"""Why pages may not travel: the field that differs, and both values of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["ManifestError", "NegotiationError", "Refusal"]


class ManifestError(ValueError):
    """Bytes that are no manifest of this version, or a manifest that contradicts itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One field in which two manifests differ so that pages would arrive as something else."""

    field: str
    where: str
    local: str
    remote: str
    advice: str = ""

    def __str__(self) -> str:
        advice = f"; {self.advice}" if self.advice else ""
        return f"{self.where}: {self.field}: {self.local} here, {self.remote} there{advice}"


class NegotiationError(ValueError):
    """No plan: pages of one side would not be pages of the other. A line for each difference."""

    def __init__(self, refusals: Sequence[Refusal]) -> None:
        super().__init__("\n".join(map(str, refusals)))
        self.refusals = tuple(refusals)
