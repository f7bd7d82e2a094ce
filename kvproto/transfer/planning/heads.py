"""Which of the model's heads two ranks share, and where these are in the rows of each."""

from __future__ import annotations

from collections.abc import Iterator

from kvproto.protocols import BufferRegion

from ..manifests.manifest import ManifestRegion
from .pieces import ALL_HEADS, HeadCut

__all__ = ["head_cut", "head_differences"]


def head_cut(local: ManifestRegion, remote: ManifestRegion) -> HeadCut:
    """The heads that both ranks have, counted from the first of each; all where none are told."""
    if local.heads is None or remote.heads is None or local.heads == remote.heads:
        return ALL_HEADS
    first, stop = _common(local.heads, remote.heads)
    mine, theirs = (slice(first - own[0], stop - own[0]) for own in (local.heads, remote.heads))
    return mine, theirs


def head_differences(
    local: ManifestRegion, remote: ManifestRegion
) -> Iterator[tuple[str, object, object]]:
    """Why no heads, or nobody knows which, could travel."""
    mine, theirs = (_heads_of(each.region) for each in (local, remote))
    if local.heads is None or remote.heads is None:
        told = [_told(each) for each in (local, remote)]
        if local.heads is not remote.heads or mine != theirs:
            yield "heads", told[0], told[1]
        return
    first, stop = _common(local.heads, remote.heads)
    if first >= stop:
        yield "heads", _told(local), _told(remote)


def _common(mine: tuple[int, int], theirs: tuple[int, int]) -> tuple[int, int]:
    return max(mine[0], theirs[0]), min(mine[1], theirs[1])


def _heads_of(region: BufferRegion) -> set[int]:
    return {axis.size for field in region.fields for axis in field.axes if axis.name == "head"}


def _told(each: ManifestRegion) -> str:
    if each.heads is not None:
        return f"{each.heads[0]}..{each.heads[1] - 1} of the model"
    held = sorted(_heads_of(each.region))
    return f"{held[0]}, which ones is not told" if held else "none"
