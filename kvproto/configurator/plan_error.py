"""What a plan says when it cannot be made."""

from __future__ import annotations

__all__ = ["PlanError"]


class PlanError(ValueError):
    """An option with a value that cannot be served: which, why, and what to change.

    The parts are also attributes: `option`, `value`, `why`, `change`.
    """

    def __init__(self, option: str, value: object, why: str, change: str) -> None:
        super().__init__(f"{option}={value!r}: {why}; {change}")
        self.option, self.value, self.why, self.change = option, value, why, change
