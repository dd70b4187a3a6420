"""Whether a client reads at all, looked at now and then."""

from __future__ import annotations

import asyncio
import fcntl
import socket
import struct
import termios


class Unread:
    """What was written to a connection and did not reach the other side's kernel yet."""

    __slots__ = ("_moved", "_size", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._size = 0
        self._moved = 0.0

    def since(self, now: float) -> float:
        """For how long nothing of it has moved. More of it is no news: whoever writes is paused then."""
        size = self._transport.get_write_buffer_size()
        if size:
            size += _in_kernel(self._transport.get_extra_info("socket"))
        if size != self._size or not size:
            self._size, self._moved = size, now
        return now - self._moved


def _in_kernel(connection: socket.socket) -> int:
    """Bytes that are not acknowledged (SIOCOUTQ, tcp(7)): it takes no more before many of them are."""
    try:
        count: int = struct.unpack("i", fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, bytes(4)))[0]
    except OSError:
        return 0
    return count
