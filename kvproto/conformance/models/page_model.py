"""Plain-Python accounts of pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

__all__ = ["Differs", "Request", "Space", "require_equal"]


class Differs(Exception):
    """The allocator did something else than the model."""

    def __init__(self, expected: str, got: str) -> None:
        super().__init__(f"expected {expected}, got {got}")
        self.expected, self.got = expected, got


def require_equal(what: str, *, expected: object, got: object) -> None:
    """:raises Differs: when the two are not equal."""
    if got != expected:
        raise Differs(f"{what} {expected}", str(got))


@dataclass
class Request:
    """A request's slots, token by token."""

    slots: list[int] = field(default_factory=list[int])

    @property
    def last(self) -> int:
        """The slot of its last token, -1 without one."""
        return self.slots[-1] if self.slots else -1


@dataclass
class Space:
    """Which pages are free, held back by a group, or owned: three disjoint sets."""

    pages: int
    page_size: int
    free: set[int] = field(default_factory=set[int])
    held: set[int] = field(default_factory=set[int])
    in_group: bool = False

    def __post_init__(self) -> None:
        self.clear()

    @property
    def owned(self) -> set[int]:
        """The pages that requests have."""
        return set(range(1, self.pages + 1)) - self.free - self.held

    @property
    def available(self) -> int:
        """Slots that can be taken."""
        return len(self.free) * self.page_size

    def clear(self) -> None:
        """Everything is free."""
        self.free, self.held, self.in_group = set(range(1, self.pages + 1)), set(), False

    def take(self, pages: Sequence[int]) -> None:
        """These were handed out.

        :raises Differs: for a page that was not free, or twice among them.
        """
        if len(set(pages)) < len(pages) or not set(pages) <= self.free:
            raise Differs(f"pages among {sorted(self.free)}, each once", f"pages {list(pages)}")
        self.free -= set(pages)

    def give_back(self, pages: Iterable[int]) -> None:
        """These were freed; of those that are not owned, none is."""
        freed = set(pages) & self.owned
        if self.in_group:
            self.held |= freed
        else:
            self.free |= freed

    def end_group(self) -> None:
        """What was held back is free."""
        self.free |= self.held
        self.held, self.in_group = set(), False

    def demand(self, before: int, after: int) -> int:
        """New pages of a request that grows from so many tokens to so many."""
        return -(-after // self.page_size) + (-before // self.page_size)

    def page(self, slot: int) -> range:
        """The slots on the page of this one."""
        start = slot // self.page_size * self.page_size
        return range(start, start + self.page_size)

    def continues(self, before: Sequence[int], new: Sequence[int]) -> list[int]:
        """The new pages, in order, of tokens that follow those before.

        :raises Differs: for a token that is not where its place in the sequence puts it.
        """
        pages: list[int] = []
        row = [*before, *new]
        for token in range(len(before), len(row)):
            page, offset = divmod(row[token], self.page_size)
            wanted = token % self.page_size
            if offset != wanted or (offset and row[token] != row[token - 1] + 1):
                where = f"offset {wanted}{', next to the last' if wanted else ''}"
                raise Differs(f"token {token} at {where}", f"slot {row[token]}")
            if offset == 0:
                pages.append(page)
        return pages
