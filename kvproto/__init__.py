"""Capabilities and traits of LLM KV-cache pools: can it, and what is it?

Everything of `kvproto.protocols` is importable from here. Neither torch nor any optional
package is imported before something that needs it is used.
"""

from . import protocols
from ._version import __version__
from .protocols import *

__all__ = ["__version__"]
__all__ += protocols.__all__
