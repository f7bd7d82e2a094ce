"""Accepted drafts."""

from __future__ import annotations

from .difference import Difference, Shown

__all__ = ["COMMITS"]

DRAFTS = "accepted drafts"
ONE = [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]

COMMITS = (
    Difference(
        family=DRAFTS,
        operation="an accepted draft for the reserved slot",
        clause="commit.guards",
        sglang="stored there, to be met by every masked read",
        kvproto="dropped",
        shown=Shown([1.0, *ONE[1:]], ONE),
    ),
    Difference(
        family=DRAFTS,
        operation="an accepted draft for nowhere",
        clause="commit.guards",
        sglang="stored in the last slot",
        kvproto="dropped",
        shown=Shown([*ONE[:7], 1.0], ONE),
    ),
    Difference(
        family=DRAFTS,
        operation="drafts for the layer before the stage",
        clause="commit.refuses",
        sglang="stored in the stage's last layer",
        kvproto="ValueError",
        shown=Shown(1.0, "ValueError"),
    ),
)
"""Real leaves of sglang under the script of `commits.py`."""
