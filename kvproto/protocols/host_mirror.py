"""Device pools that a host-memory tier can stand behind."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from ._capability import Capability

__all__ = ["HostMirrorable"]


@runtime_checkable
class HostMirrorable(Capability, Protocol):
    """Can a host tier of the same geometry be built from the pool's own description?

    Asked of leaves: layer ids and pages in the descriptions are the leaf's own. A composite is
    none; its tier is built leaf by leaf.
    """

    @property
    def host_capacity_tokens(self) -> int | None:
        """Tokens the tier is sized by, where `size` counts something else; None means `size`."""
        ...

    @property
    def host_capacity_bytes(self) -> int | None:
        """Bytes the tier is sized by, where buffers are shared between pools; else None."""
        ...

    def get_device_pool_infos(self) -> tuple[object, ...]:
        """The persistent buffers, one description per set of rows that is indexed alike.

        Bytes per token come from the buffers themselves, never from a nominal width.
        """
        ...

    def host_pool_decls(self) -> tuple[object, ...]:
        """The host pools to keep, one for the rows and one for each dependent set of rows."""
        ...

    def get_kv_size_bytes(self) -> tuple[int, int] | int:
        """As in `SizeReporting`."""
        ...
