"""Loopback ports for engines: one owner at a time, tested by binding, held until the engine may bind.

Between the hand-over and the engine's own bind a port looks free. Other lemonpod servers of this machine are
kept off it for the whole lease by a second sign: an abstract Unix socket named after the port, which lives in
the same network namespace as the port does and goes with its process, however that ends.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from types import TracebackType
from typing import Final, Self

from lemonpod.errors import NoPortError

LOOPBACK: Final = "127.0.0.1"


class PortLease:
    """The right to one port. Leaving the `with` block, or `release`, gives it back."""

    def __init__(
        self, broker: PortBroker, port: int, held: socket.socket | None, sign: socket.socket
    ) -> None:
        self.port = port
        self._broker = broker
        self._held = held
        self._sign = sign

    def hand_over(self) -> None:
        """Free the port for the engine that is about to bind it; it stays leased."""
        if self._held is not None:
            self._held.close()

    def release(self) -> None:
        """Idempotent."""
        self.hand_over()
        self._sign.close()
        self._broker._give_back(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class PortBroker:
    """Leases the ports from `first` to `last`, both included, going round so that a freed port rests."""

    def __init__(self, first: int, last: int) -> None:
        if not 1 <= first <= last <= 65535:
            raise ValueError(f"{first}-{last} is no range of ports")
        self._first = first
        self._last = last
        self._next = first
        self._leases: dict[int, PortLease] = {}

    @property
    def leased(self) -> frozenset[int]:
        return frozenset(self._leases)

    def lease(self) -> PortLease:
        """The next free port, at rest if there is one; raises NoPortError."""
        for at_rest in (True, False):
            for port in self._in_turn():
                if lease := self._try(port, at_rest=at_rest):
                    self._next = port + 1
                    return lease
        count = self._last - self._first + 1
        taken = count - len(self._leases)
        raise NoPortError(
            f"no free port from {self._first} to {self._last}: "
            f"{len(self._leases)} leased to engines, {taken} taken by other programs",
            hint="unload a model, or widen the range",
        )

    def lease_held(self, port: int) -> PortLease:
        """A port that an engine to be adopted listens on already; raises NoPortError where it is leased."""
        if port in self._leases or (sign := _put_up_sign(port)) is None:
            raise NoPortError(f"port {port} is leased to another engine")
        lease = self._leases[port] = PortLease(self, port, None, sign)
        return lease

    def _in_turn(self) -> Iterator[int]:
        count = self._last - self._first + 1
        begin = self._next - self._first
        return (self._first + (begin + step) % count for step in range(count))

    def _try(self, port: int, *, at_rest: bool) -> PortLease | None:
        if port in self._leases or (sign := _put_up_sign(port)) is None:
            return None
        if held := claim(LOOPBACK, port, at_rest=at_rest):
            lease = self._leases[port] = PortLease(self, port, held, sign)
            return lease
        sign.close()
        return None

    def _give_back(self, lease: PortLease) -> None:
        if self._leases.get(lease.port) is lease:
            del self._leases[lease.port]


def _put_up_sign(port: int) -> socket.socket | None:
    """Tell other lemonpod servers that the port is leased; None where one of them has told so before."""
    sign = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    if sys.platform == "linux":  # elsewhere there are no abstract names
        try:
            sign.bind(f"\0lemonpod-port-{port}")
        except OSError:
            sign.close()
            return None
    return sign


def is_leased(port: int) -> bool:
    """Whether a lemonpod server of this machine has leased the port."""
    sign = _put_up_sign(port)
    if sign is not None:
        sign.close()
    return sign is None


def claim(host: str, port: int, *, at_rest: bool = False) -> socket.socket | None:
    """A socket that holds the port, or None where it cannot be had.

    SO_REUSEADDR lets closed connections in TIME_WAIT not count, while a listener on this address or on the
    wildcard does. Listening, not only binding, keeps out other holders that set it too.

    A port `at_rest` has no such connections either: whisper.cpp's server, which sets SO_REUSEPORT alone,
    could not bind for a minute where an engine with SO_REUSEADDR has listened.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    held = socket.socket(family, socket.SOCK_STREAM)
    try:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, not at_rest)
        held.bind((host, port))
        held.listen(1)
    except OSError:
        held.close()
        return None
    return held


def is_free(host: str, port: int) -> bool:
    """Nobody listens there now."""
    held = claim(host, port)
    if held is not None:
        held.close()
    return held is not None
