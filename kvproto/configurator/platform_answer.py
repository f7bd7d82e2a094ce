"""Whether what an entry point gave is a platform, and what it lacks where it is none."""

from __future__ import annotations

from typing import cast

from kvproto.protocols import Platform, PlatformCapabilities, explain

__all__ = ["wrong_platform"]


def wrong_platform(answer: object) -> str:
    """In one line, to follow the name of who gave it; "" for a platform."""
    if answer is None:
        return "gave None: return a Platform, or Declined(reason)"
    if isinstance(answer, type):
        return f"gave the class {answer.__name__}, which is no Platform: return an instance of it"
    kind = type(answer).__name__
    if not isinstance(answer, Platform):
        return f"gave {kind}, which is no Platform: {'; '.join(explain(answer, Platform))}"
    facts = cast("object", answer.capabilities)
    if not isinstance(facts, PlatformCapabilities):
        told = type(facts).__name__
        return f"gave {kind}, whose capabilities are of type {told}, not PlatformCapabilities"
    return ""
