"""The geometries a factory is asked for; it answers `Declined` to those it does not serve."""

from __future__ import annotations

from kvproto._bad_input import BadInput

from .accounts import ACCOUNT_SPECS
from .bare import BARE_SPECS
from .blocks import BLOCK_SPECS
from .composites import COMPOSITE_SPECS
from .latent import LATENT_SPECS
from .layouts import LAYOUT_SPECS
from .nearest import nearest
from .rows import ROW_SPECS
from .sparse import SPARSE_SPECS
from .spec import Spec

__all__ = ["SPECS", "Spec", "spec_named"]

SPECS: tuple[Spec, ...] = (
    ROW_SPECS
    + LAYOUT_SPECS
    + BARE_SPECS
    + LATENT_SPECS
    + SPARSE_SPECS
    + BLOCK_SPECS
    + COMPOSITE_SPECS
    + ACCOUNT_SPECS
)
"""Every geometry, in the order they are tried."""


def spec_named(name: str) -> Spec:
    """The spec of that name.

    :raises BadInput: naming those most like it.
    """
    for spec in SPECS:
        if spec.name == name:
            return spec
    raise BadInput(f"no spec '{name}': {nearest(name, (spec.name for spec in SPECS))}")
