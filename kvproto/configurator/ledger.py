"""Where each byte of a budget goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Part", "Share"]

Part = Literal["full", "window", "draft", "state", "draft_scratch", "unused"]
"""Rows of full layers, of windowed ones, of the draft; state of requests; scratch of verification;
what is left over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The bytes of one part, reserved pages and slots included."""

    part: Part
    bytes: int
