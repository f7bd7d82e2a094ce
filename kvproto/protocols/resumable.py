"""Buffers whose memory a memory saver takes away for a while."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from ._capability import Capability

__all__ = ["Resumable"]


@runtime_checkable
class Resumable(Capability, Protocol):
    """Can the pool be used again after its buffers lost their memory and got other memory back?

    A pool built with `enable_memory_saver` allocates every buffer of rows or states in the saver's
    region tagged `kv_cache`, and nothing else there; engines pause and resume that tag to lend the
    memory to training. From pause to resume there is no memory behind the buffers: geometry,
    sizes, regions and transfer descriptors may still be asked for, all else may not. Addresses are
    the same before, meanwhile and afterwards. The contents are lost; resumed, they are undefined.
    """

    def restore_reserved(self) -> None:
        """Zero slot 0 of every buffer in every layer, as in a new pool; rows of others stay.

        Called once after each resume, before anything else is. The slots that are lent need
        nothing: who gets one writes it before it is read, and clears it where it is one of state.
        """
        ...
