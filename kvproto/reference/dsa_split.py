"""Sparse latent attention where ranks split a request's tokens: index keys of all, rows of some."""

from __future__ import annotations

from .dsa import DSALeaf

__all__ = ["SplitDSALeaf"]


class SplitDSALeaf(DSALeaf):
    """Latent rows of one rank's tokens, and the index keys of those of `dcp_size` ranks.

    Keywords are those of `DSALeaf`. `size` and `page_size` count rows: a page that the ranks number
    together is a page of rows here, and `dcp_size` index pages in a row. Rows are at a rank's own
    locations, index keys at those that the ranks share, so that nothing moves or copies both by
    one of them.
    """

    # Not supported: one location names a row or an index key, never both.
    move_kv_cache = None  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    get_cpu_copy = None  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    load_cpu_copy = None  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    check_cpu_copy = None  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]

    @classmethod
    def _check_ranks(cls, page_size: int, dcp_size: int, dcp_replicated: bool) -> None:
        if dcp_size < 2 or dcp_replicated:
            raise ValueError(
                f"dcp_size={dcp_size}, dcp_replicated={dcp_replicated}: a SplitDSALeaf has one of "
                "several ranks' rows, all rows are a DSALeaf's; dsa_leaf takes the same keywords "
                "and picks the class"
            )

    @property
    def _id_slots(self) -> int:
        """Tokens that there is room for index keys of: those of every rank's slots."""
        return (self.size + self.page_size) * self._ranks
