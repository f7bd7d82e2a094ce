"""Messages over a socket that is connected already, each behind its length; no call waits."""

from __future__ import annotations

import select
import socket
from collections import deque
from collections.abc import Iterator
from contextlib import suppress

from .messages import Message, MessageError, Refused, decode, encode

__all__ = ["Exchange"]

_LENGTH = 4
_LONGEST = 64 << 20
_AT_ONCE = 1 << 20


class Exchange:
    """Both directions of one peer. Once `ended` says why, nothing is sent and nothing comes."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.ended: str | None = None
        self._socket = connection
        self._out, self._in = bytearray(), bytearray()
        self._messages: deque[Message] = deque()

    def send(self, message: Message) -> None:
        """Send it, now or with later calls."""
        if self.ended is not None:
            return
        body = encode(message)
        self._out += len(body).to_bytes(_LENGTH, "big") + body
        self._flush()

    def take(self) -> Message | None:
        """The next message, if one is there."""
        if not self._messages:
            self._read()
        return self._messages.popleft() if self._messages else None

    def receive(self) -> list[Message]:
        """All that came since the last call."""
        self._read()
        came = list(self._messages)
        self._messages.clear()
        return came

    def wait(self, seconds: float) -> None:
        """Until something came, at most so long."""
        if self.ended is None:
            waiting = select.poll()
            waiting.register(self._socket, select.POLLIN | (select.POLLOUT if self._out else 0))
            waiting.poll(max(0.0, seconds) * 1000)

    def refuse(self, reason: str) -> None:
        """End, for what the peer said: it is told why, and sees the end of the connection."""
        if self.ended is None:
            self.send(Refused(tuple(reason.splitlines())))
            self.ended = reason
            with suppress(OSError):  # the peer has gone
                self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Send what can be sent at once, and end."""
        if self.ended is None:
            self._flush()
            self.ended = "closed here"
        self._socket.close()

    def _flush(self) -> None:
        while self._out and self.ended is None:
            try:
                del self._out[: self._socket.send(self._out)]
            except BlockingIOError:
                return
            except OSError:
                self._out.clear()  # what the peer said before it went is still to be read

    def _read(self) -> None:
        self._flush()
        while self.ended is None:
            try:
                came = self._socket.recv(_AT_ONCE)
            except BlockingIOError:
                break
            except OSError as error:
                self.ended = f"connection lost: {error.strerror}"
                break
            if not came:
                self.ended = "connection closed by the peer"
            self._in += came
        try:
            self._messages.extend(self._frames())
        except MessageError as error:
            self.refuse(str(error))

    def _frames(self) -> Iterator[Message]:
        while len(self._in) >= _LENGTH:
            length = int.from_bytes(self._in[:_LENGTH], "big")
            if length > _LONGEST:
                raise MessageError(f"a message of {length} bytes, must be at most {_LONGEST}")
            if len(self._in) < _LENGTH + length:
                return
            body = bytes(self._in[_LENGTH : _LENGTH + length])
            del self._in[: _LENGTH + length]
            yield decode(body)
