"""How latent rows lie: as the platform's kernels read them, or as one of the ways they can."""

from __future__ import annotations

from kvproto.protocols import LatentLayout, PlatformCapabilities

from .options import ServingOptions
from .plan_error import PlanError

__all__ = ["latent_layout"]


def latent_layout(
    options: ServingOptions, platform: PlatformCapabilities, *, indexed: bool
) -> LatentLayout:
    """The layout that is asked for, or else the platform's own; `indexed` rows have index keys.

    :raises PlanError: for a layout that no kernel of the platform reads such rows in.
    """
    asked, own = options.latent_layout, platform.latent_layout
    if asked is None or asked == own:
        return own
    if asked not in platform.other_latent_layouts:
        why = f"no kernel of the platform '{platform.device_type}' reads latent rows so"
    elif indexed:
        why = f"beside index keys the platform '{platform.device_type}' reads them as {own!r} alone"
    else:
        return asked
    raise PlanError("latent_layout", asked, why, f"give {own!r}, or leave it out")
