"""What mypy and pyright say of a class that claims a protocol, member by member.

`kvproto typecheck acme.pool:AcmePool` writes, for each protocol, the line a vendor would put
into a test of their own, `_: type[KVLeaf] = AcmePool`, and beside it one line per member, so that
a verdict names all members that do not fit and not only the first two a checker cares to show.
"""

from ._run import run

__all__ = ["run"]
