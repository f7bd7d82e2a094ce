"""Which runs of bytes of a page are which runs of another page that has the same elements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kvproto.protocols import Field

from ..manifests.split import Split, common_runs
from .plan import Pieces

__all__ = ["ALL_HEADS", "HeadCut", "pieces_between", "repeated", "split_pieces", "whole_page"]

HeadCut = tuple[slice, slice]
"""The heads that travel, counted from the first of the local and of the remote rows."""

ALL_HEADS: HeadCut = (slice(None), slice(None))


def whole_page(nbytes: int) -> Pieces:
    """A page that is the same at both ends."""
    return Pieces((0,), (0,), (nbytes,))


def pieces_between(
    local: Sequence[Field], remote: Sequence[Field], heads: HeadCut = ALL_HEADS
) -> Pieces:
    """The runs that lie together at both ends, by their place in the local page.

    Fields of one place in the two sequences have the same elements in the same logical order, but
    for the heads that are cut off; where they lie is their own affair. Padding is left out.
    """
    starts: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]] = []
    for mine, theirs in zip(local, remote, strict=True):
        if mine.name == "padding":
            continue
        here, there = _offsets(mine, heads[0]), _offsets(theirs, heads[1])
        starts.append((here, there, np.full(here.size, mine.element_bytes, np.int64)))
    here, there, nbytes = (np.concatenate([part[i] for part in starts]) for i in range(3))
    order = np.argsort(here, kind="stable")
    return _joined(here[order], there[order], nbytes[order])


def split_pieces(local: Split, remote: Split, step: int) -> Pieces:
    """The steps of `step` bytes that both ranks have, of an item of each."""
    runs = np.array(list(common_runs(local, remote)), np.int64).T * step
    return _joined(*runs)


def repeated(pieces: Pieces, times: int, local_step: int, remote_step: int) -> Pieces:
    """The pieces of several pages in a row, so many bytes apart at either end."""
    steps = np.arange(times, dtype=np.int64)[:, None]
    here, there, nbytes = (np.array(part, np.int64) for part in _columns(pieces))
    return _joined(
        (steps * local_step + here).ravel(),
        (steps * remote_step + there).ravel(),
        np.tile(nbytes, times),
    )


def _columns(pieces: Pieces) -> tuple[tuple[int, ...], ...]:
    return pieces.local, pieces.remote, pieces.nbytes


def _offsets(field: Field, heads: slice) -> NDArray[np.int64]:
    """Bytes from the page's start to every element, in logical order."""
    offsets = np.array(field.offset, np.int64)
    for axis in field.axes:
        along = np.zeros(1, np.int64)
        for tile in axis.tiles:
            steps = np.arange(tile.extent, dtype=np.int64) * tile.stride
            along = np.add.outer(along, steps).ravel()
        offsets = np.add.outer(offsets, along[heads] if axis.name == "head" else along)
    return offsets.ravel()


def _joined(here: NDArray[np.int64], there: NDArray[np.int64], nbytes: NDArray[np.int64]) -> Pieces:
    begins = np.ones(len(here), bool)
    begins[1:] = (here[1:] != here[:-1] + nbytes[:-1]) | (there[1:] != there[:-1] + nbytes[:-1])
    first = np.flatnonzero(begins)
    lengths = np.add.reduceat(nbytes, first)
    return Pieces(
        tuple(here[first].tolist()), tuple(there[first].tolist()), tuple(lengths.tolist())
    )
