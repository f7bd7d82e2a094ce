"""`alloc_extend` and `alloc_decode` of arrays in host memory: numpy's calls cost less."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .on_host import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["decoded_slots", "extended_slots", "without_repeats"]


def extended_slots(
    prefix_lens: NDArray[np.int64],
    seq_lens: NDArray[np.int64],
    last_loc: NDArray[np.integer],
    new_pages: NDArray[np.int64],
    page_size: int,
) -> NDArray[np.int64]:
    """`alloc_extend`, likewise by runs: what a request's last page takes, then its new pages."""
    old_pages = -(-prefix_lens // page_size)
    pages = -(-seq_lens // page_size) - old_pages
    first = np.cumsum(pages + 1) - (pages + 1)
    runs = len(new_pages) + len(pages)
    fresh = np.ones(runs, np.bool_)
    fresh[first] = False
    lengths, starts = np.full(runs, page_size), np.empty(runs, np.int64)
    lengths[first + pages] = seq_lens - (old_pages + pages - 1) * page_size
    lengths[first] = np.minimum(old_pages * page_size, seq_lens) - prefix_lens
    starts[first], starts[fresh] = last_loc + 1, new_pages * page_size
    starts -= np.cumsum(lengths) - lengths
    slots = np.repeat(starts, lengths)
    slots += np.arange(len(slots))
    return slots


def decoded_slots(
    last_loc: NDArray[np.integer],
    begins: NDArray[np.intp],
    new_pages: NDArray[np.int64],
    page_size: int,
) -> NDArray[np.int64]:
    """`alloc_decode`, where the requests at `begins` begin a page."""
    slots: NDArray[np.int64] = np.add(last_loc, 1, dtype=np.int64)
    slots[begins] = new_pages * page_size
    return slots


def without_repeats(pages: NDArray[np.integer]) -> NDArray[np.integer]:
    """Each page once where several in a row are the same."""
    if len(pages) < 2:
        return pages
    return np.append(pages[:-1].compress(pages[1:] != pages[:-1]), pages[-1])
