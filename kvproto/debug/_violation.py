"""What debug mode raises."""

from __future__ import annotations

__all__ = ["CannotValidate", "ContractViolation"]


class ContractViolation(TypeError, ValueError, IndexError):
    """A call across a protocol boundary broke the contract; the message is one line.

    Also a ValueError and an IndexError: protocols promise those for rows of another width and
    for locations past the last row, and who handles them needs no other code in debug mode.

    `argument` is the parameter as the protocol names it, or `return value`, or `value` for a
    data member. Tensors are summarised (`int64[4] on cpu`), their values are never printed.
    """

    def __init__(self, pool: str, member: str, argument: str, expected: str, got: str) -> None:
        super().__init__(f"{pool}.{member}: {argument}: expected {expected}, got {got}")
        self.pool = pool
        self.member = member
        self.argument = argument
        self.expected = expected
        self.got = got

    def __reduce__(self) -> tuple[type[ContractViolation], tuple[str, str, str, str, str]]:
        parts = (self.pool, self.member, self.argument, self.expected, self.got)
        return type(self), parts


class CannotValidate(RuntimeError):
    """Checks could not be installed on a pool; the message says what to do."""
