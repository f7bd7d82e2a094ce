"""Capabilities and traits of LLM KV-cache pools: can it, and what is it?

The contracts and the questions are in `kvproto.protocols`; nothing is imported before it is
asked for, so that this package costs a consumer nothing.
"""

from ._version import __version__

__all__ = ["__version__"]
