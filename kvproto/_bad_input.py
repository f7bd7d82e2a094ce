"""What a command says when it cannot run."""

from __future__ import annotations

__all__ = ["BadInput"]


class BadInput(Exception):
    """One line for the person who typed it: what is wrong, where, and what to do."""
