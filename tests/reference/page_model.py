"""Plain-Python accounts of pages, which the stateful tests hold allocators against."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Request", "Space"]


@dataclass
class Request:
    """A request's slots, token by token; `gone` pages were freed from its front on."""

    slots: list[int] = field(default_factory=list)
    gone: int = 0

    @property
    def last(self) -> int:
        return self.slots[-1] if self.slots else -1

    def live(self, page_size: int) -> list[int]:
        return self.slots[self.gone * page_size :]


@dataclass
class Space:
    """Which pages are free, held back by a group, or owned: three disjoint sets."""

    pages: int
    page_size: int
    free: set[int] = field(default_factory=set)
    held: set[int] = field(default_factory=set)
    in_group: bool = False

    def __post_init__(self) -> None:
        self.clear()

    @property
    def owned(self) -> set[int]:
        return set(range(1, self.pages + 1)) - self.free - self.held

    def clear(self) -> None:
        self.free, self.held, self.in_group = set(range(1, self.pages + 1)), set(), False

    def take(self, pages: list[int]) -> None:
        """Pages handed out must have been free, each once."""
        assert len(set(pages)) == len(pages)
        assert set(pages) <= self.free
        self.free -= set(pages)

    def give_back(self, pages: set[int]) -> None:
        freed = pages & self.owned
        if self.in_group:
            self.held |= freed
        else:
            self.free |= freed

    def end_group(self) -> None:
        self.free |= self.held
        self.held, self.in_group = set(), False

    def demand(self, before: int, after: int) -> int:
        return -(-after // self.page_size) + (-before // self.page_size)

    def continues(self, before: list[int], new: list[int]) -> list[int]:
        """Check the slots of new tokens against those before; the new pages, in order."""
        pages: list[int] = []
        whole = [*before, *new]
        for token in range(len(before), len(whole)):
            page, offset = divmod(whole[token], self.page_size)
            assert offset == token % self.page_size
            if offset == 0:
                pages.append(page)
            else:
                assert whole[token] == whole[token - 1] + 1
        return pages
