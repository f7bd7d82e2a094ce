"""Whether fp8 latents beside index keys are rows with scales in them, or bare numbers."""

from __future__ import annotations

from kvproto.protocols import DSARows, PlatformCapabilities

from .geometry import LatentGeometry
from .options import ServingOptions
from .plan_error import PlanError

__all__ = ["fp8_rows"]

_BLOCK = 128
"""Numbers of a packed row that share a scale."""


def fp8_rows(
    geometry: LatentGeometry, options: ServingOptions, platform: PlatformCapabilities
) -> DSARows | None:
    """The rows that are asked for, or else the platform's most preferred that can hold the model's;
    None where rows are not of e4m3.

    :raises PlanError: for rows that no kernel of the platform reads, or that cannot hold these.
    """
    if options.kv_cache_dtype != "fp8_e4m3":
        return None
    if options.dsa_rows is not None:
        why = _misfit(options.dsa_rows, geometry, platform)
        if why is None:
            return options.dsa_rows
        others = [rows for rows in platform.dsa_rows if _misfit(rows, geometry, platform) is None]
        change = f"give {others[0]!r}" if others else "store rows in another type"
        raise PlanError("dsa_rows", options.dsa_rows, why, change)
    for rows in platform.dsa_rows:
        if _misfit(rows, geometry, platform) is None:
            return rows
    raise PlanError(
        "kv_cache_dtype",
        options.kv_cache_dtype,
        f"kernels of the platform '{platform.device_type}' read no such rows beside index keys",
        "store rows in another type",
    )


def _misfit(rows: DSARows, geometry: LatentGeometry, platform: PlatformCapabilities) -> str | None:
    if rows not in platform.dsa_rows:
        return f"no kernel of the platform '{platform.device_type}' reads them"
    if rows == "raw":
        return None
    if platform.fp8_variant != "e4m3fn":
        return f"they are e4m3fn, and the platform's numbers are {platform.fp8_variant}"
    if geometry.kv_lora_rank % _BLOCK:
        return f"{_BLOCK} numbers of a latent share a scale, and it has {geometry.kv_lora_rank}"
    return None
