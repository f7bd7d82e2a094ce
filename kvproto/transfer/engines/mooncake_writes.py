"""Writes of Mooncake on their way to one peer: polled block by block, then told of."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from .engine import Blocks, WriteState

__all__ = ["MooncakeWrite", "Outbound"]

_MOST_MOVING = 1024
"""Blocks under way to a peer: Mooncake's TCP fails those beyond a queue of some 2,000."""

_MOST_BYTES = 32 << 20
"""Bytes of these, or the last block more: a notification waits behind them, in a call of
Mooncake's that spins on a core."""

_MOST_ASKED = 16
"""Moving blocks asked after at once: all, at every poll, would take a core from the copies."""

_LANDED, _LOST = 1, -1
"""What Mooncake says of a block that has ended; it is forgotten with that answer."""

_NOT_SUBMITTED = (0, -1, 2**64 - 1)
"""Numbers of no block."""


class Outbound:
    """What is on its way to one peer, in the order of the writes.

    A batch of blocks is of no use here: Mooncake has no look at all of one that does not wait, and
    calls it failed with the first block that is, while others of it are still landing. So each
    block goes by itself. What notifies is a call that waits for the peer: `tell` is made by
    a thread of this peer's own, which another peer that stands still does not hold up.
    """

    def __init__(self, engine: Any, peer: str, tell: Callable[[bytes], bool]) -> None:
        self._engine: Any = engine
        self._peer, self._tell = peer, tell
        self._teller: ThreadPoolExecutor | None = ThreadPoolExecutor(1, f"mooncake to {peer}")
        self._stopping: ThreadPoolExecutor | None = None
        self._moving: list[tuple[int, int, MooncakeWrite]] = []  # number, bytes, whose
        self._bytes = 0
        self._waiting: deque[MooncakeWrite] = deque()
        self._last_told: Future[bool] | None = None

    def write(self, local: Blocks, remote: Blocks, notification: bytes) -> MooncakeWrite:
        """Begin one; it is under way in the order of these calls."""
        made = MooncakeWrite(self, local, remote, notification)
        self._waiting.append(made)
        made.state()
        return made

    def advance(self) -> None:
        """Look after every block, and submit as many as there is room for."""
        if self._engine is not None:
            self._collect()
            self._submit()

    def tell(self, notification: bytes) -> Future[bool]:
        """Notify the peer, after what it was notified of before; cancelled where that is over."""
        if self._teller is not None:
            self._last_told = self._teller.submit(self._tell, notification)
            return self._last_told
        never: Future[bool] = Future()
        never.cancel()
        return never

    def stop(self) -> None:
        """Submit no more blocks and no notifications; those under way are looked after still."""
        for write in [*self._waiting, *(write for *_, write in self._moving)]:
            write.give_up()
        if self._teller is not None:
            self._teller.shutdown(wait=False, cancel_futures=True)
            self._stopping, self._teller = self._teller, None
        self._waiting.clear()

    def is_at_rest(self) -> bool:
        """Whether nothing of what was stopped is on its way."""
        self.advance()
        return not self._moving and (self._last_told is None or self._last_told.done())

    def close(self) -> None:
        """Let go of what was stopped: wait for the notification that is being sent."""
        if self._stopping is not None:
            self._stopping.shutdown(wait=True)
        for *_, write in self._moving:
            write.block_ended(_LOST)
        self._moving.clear()
        self._engine = None

    def _collect(self) -> None:
        """Blocks end about in the order of their beginning: the first that move tell enough."""
        moving: list[tuple[int, int, MooncakeWrite]] = []
        for at, each in enumerate(self._moving):
            if len(moving) == _MOST_ASKED:
                moving += self._moving[at:]
                break
            if not self._has_ended(*each):
                moving.append(each)
        self._moving = moving

    def _has_ended(self, block: int, nbytes: int, write: MooncakeWrite) -> bool:
        """One that is late has not: it may land yet."""
        status: int = self._engine.transfer_check_status(block)
        if status not in (_LANDED, _LOST):
            return False
        self._bytes -= nbytes
        write.block_ended(status)
        return True

    def _submit(self) -> None:
        while self._waiting and len(self._moving) < _MOST_MOVING and self._bytes < _MOST_BYTES:
            write = self._waiting[0]
            if not write.todo:
                self._waiting.popleft()
                continue
            source, target, nbytes = write.todo.popleft()
            block = self._engine.transfer_submit_write(self._peer, source, target, nbytes)
            if block in _NOT_SUBMITTED:
                write.give_up()
            else:
                write.moving += 1
                self._bytes += nbytes
                self._moving.append((block, nbytes, write))


class MooncakeWrite:
    """`Write` of blocks that go one by one. `state` drives all that go to the peer."""

    def __init__(
        self, outbound: Outbound, local: Blocks, remote: Blocks, notification: bytes
    ) -> None:
        rows = zip(local[:, 0].tolist(), remote[:, 0].tolist(), local[:, 1].tolist(), strict=True)
        self.todo = deque(row for row in rows if row[2])
        self.moving = 0
        self._outbound, self._notification = outbound, notification
        self._is_lost = False
        self._told: Future[bool] | None = None
        self._end: WriteState = "moving"

    def state(self) -> WriteState:
        if self._end == "moving":
            self._outbound.advance()
            self._end = self._now()
        return self._end

    def release(self) -> None:
        if self._end == "moving":
            self.give_up()

    def give_up(self) -> None:
        """Nothing more of it begins; it has failed once what moves of it has ended."""
        self.todo.clear()
        self._is_lost = True
        if self._told is not None:
            self._told.cancel()

    def block_ended(self, status: int) -> None:
        """One of its blocks did: it landed, or it is lost and the rest need not begin."""
        self.moving -= 1
        if status == _LOST:
            self.give_up()

    def _now(self) -> WriteState:
        if self.todo or self.moving:
            return "moving"
        if self._told is None:
            if self._is_lost:
                return "failed"
            self._told = self._outbound.tell(self._notification)
        if not self._told.done():
            return "moving"
        return "failed" if self._told.cancelled() or not self._told.result() else "done"
