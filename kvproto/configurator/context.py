"""The longest context that is served."""

from __future__ import annotations

from .options import ServingOptions
from .plan_error import PlanError
from .shape import ModelShape

__all__ = ["context_len"]


def context_len(shape: ModelShape, options: ServingOptions) -> int:
    """What the options say, or else the config.

    :raises PlanError: where neither does.
    """
    length = options.context_len or shape.context_len
    if length is None:
        raise PlanError(
            "context_len", None, f"the config of '{shape.model_type}' states none", "give one"
        )
    return length
