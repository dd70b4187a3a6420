"""A client's connection: its requests are answered one after another, in their order.

What comes behind a request that waits for its turn is kept as it is, and beyond a bound the socket is not
read any more.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections.abc import Callable
from typing import Final, Protocol

from lemonpod.errors import LemonpodError, RequestTimeoutError
from lemonpod.gateway.data.activity import Ending
from lemonpod.gateway.data.clock import NEVER, Clock
from lemonpod.gateway.data.heads import CONTINUE, own_answer
from lemonpod.gateway.data.reader import RequestReader
from lemonpod.gateway.data.request import Request
from lemonpod.gateway.data.responder import Discard, Responder
from lemonpod.gateway.data.unread import Unread
from lemonpod.gateway.data.wire import Outbox, Wire
from lemonpod.gateway.errors import Answer, answer_to, typed_envelope
from lemonpod.gateway.wording import worded

log = logging.getLogger(__name__)

_SLICE: Final = 16 << 10
"""Parsed at once, so that few requests are in the queue when it turns out that some must wait."""
_MAX_HELD: Final = 64 << 10
_LINGER: Final = 10.0
"""How long the rest of a body is read that nobody wants: a client that still sends would miss the answer."""
_PROBE_AGAIN: Final = 0.05
"""After a probe, until the answer of a socket that is closed has come."""
_PEER_IDLE, _PEER_AGAIN, _PEER_TRIES = 60, 15, 4
"""Two minutes after its machine has gone, the kernel says so of a peer that owes us nothing."""


class Host(Protocol):
    """What a connection must know of the server."""

    clock: Clock
    outbox: Outbox
    idle_timeout: float
    body_timeout: float
    write_timeout: float

    def responder(self, client: ClientConnection, request: Request) -> Responder: ...

    def opened(self, client: ClientConnection) -> None: ...

    def closed(self, client: ClientConnection) -> None: ...


class ClientConnection(Wire):
    __slots__ = (
        "_advancing",
        "_begun",
        "_current",
        "_deadline",
        "_ending",
        "_half_closed",
        "_head_deadline",
        "_held",
        "_host",
        "_reader",
        "_responder",
        "_stalled",
        "_unread",
        "clock",
        "paused",
    )

    def __init__(self, host: Host) -> None:
        super().__init__(host.outbox)
        self.clock = host.clock
        self.paused = False
        """Whether it is written to faster than it reads."""
        self._host = host
        self._reader = RequestReader()
        self._held = bytearray()
        """What has come and was not parsed."""
        self._stalled = self._half_closed = self._ending = False
        self._current: Request | None = None
        self._responder: Responder | None = None
        self._begun = False
        """The answer to the current request."""
        self._advancing = False
        self._deadline = self._head_deadline = NEVER
        self._unread: Unread

    # --- for whoever answers ------------------------------------------------------------------------------

    @property
    def has_begun(self) -> bool:
        """Whether any of the answer was sent."""
        return self._begun

    def write(self, data: bytes) -> None:
        self._begun = True
        self.send(data)

    def answer(self, answer: Answer) -> None:
        """Send an answer of our own, which is then done."""
        request = self._current
        told = answer if request is None else worded(request.path, answer)
        self.write(own_answer(told, request, self.clock))
        self.done()

    def ask_for_body(self) -> None:
        """Tell a client to go on that waits to hear whether its body is wanted."""
        request = self._current
        if request is not None and request.awaits_continue:
            request.awaits_continue = False
            if not request.size:
                self.send(CONTINUE)

    def done(self, *, keep: bool = True) -> None:
        """The answer is complete; `keep` is false where only the connection's end ends it."""
        request = self._current
        if request is None:
            return
        if not keep or not request.keep_alive or (request.awaits_continue and not request.ended):
            self._close()
        elif request.ended:
            self._current = self._responder = None
            self.resume_reading()
            self._advance()
        else:
            self._responder = Discard(request, self.done)
            self._deadline = self.clock.now + _LINGER
            self.resume_reading()

    def cut(self) -> None:
        """End the connection after what was written, as an answer that lacks its end."""
        self._responder = None
        self.close()

    def break_off(self) -> None:
        """Break the connection, so that the client's read fails even if only the end of it ends the body."""
        self._responder = None
        connection: socket.socket = self.transport.get_extra_info("socket")
        self.flush()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.abort()

    def fail(self, error: Exception) -> None:
        """Answer the current request with what went wrong, or break off the answer that has begun."""
        if isinstance(error, LemonpodError):
            answer = answer_to(error)
        else:
            log.exception("a request failed", exc_info=error)
            answer = Answer(500, typed_envelope("Internal server error", "internal_error"))
        if self._begun:
            self._leave(Ending.ERROR)
            self.break_off()
        else:
            self._leave(Ending.ERROR, answer)
            self.answer(answer)

    def turn_away(self, answer: Answer) -> None:
        """Answer a connection that has just come, and end it."""
        self._reader.over = True
        self.send(own_answer(answer, None, self.clock))
        self.close()

    def stop(self) -> None:
        """End the connection at once, as the server does."""
        self._leave(Ending.STOPPED)
        self.abort()

    def pause_reading(self) -> None:
        if not self._stalled:
            self._stalled = True
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        if self._stalled and len(self._held) <= _MAX_HELD:
            self._stalled = False
            self.transport.resume_reading()

    # --- the socket ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._unread = Unread(self.transport)
        self._host.opened(self)
        self._deadline = self.clock.now + self._host.idle_timeout

    def connection_lost(self, exc: Exception | None) -> None:
        self._host.closed(self)
        self._reader.close()
        self._leave(Ending.CLIENT_LEFT)

    def data_received(self, data: bytes) -> None:
        reader = self._reader
        if reader.over:
            return
        if reader.queue or self._held:
            self._hold(data)
        elif len(data) <= _SLICE or reader.is_all_body(data):
            reader.feed(data)
        else:
            self._held += data
        self._advance()

    def eof_received(self) -> bool:
        self.flush()  # the transport closes behind what it has been given
        request = self._current
        if self._ending or not (request.ended if request else self._reader.queue or self._held):
            return False
        self._half_closed = True
        self._probe()
        asyncio.get_running_loop().call_later(_PROBE_AGAIN, self._probe)
        return True

    def pause_writing(self) -> None:
        self.paused = True
        if self._responder is not None:
            self._responder.pause()

    def resume_writing(self) -> None:
        self.paused = False
        if self._responder is not None:
            self._responder.resume()
        elif not self._ending:
            self._advance()

    def tick(self, now: float) -> None:
        if self._unread.since(now) >= self._host.write_timeout:
            log.info(
                "a client has read nothing of its answer for %g s: it is dropped", self._host.write_timeout
            )
            self._leave(Ending.CLIENT_STALLED)
            self.break_off()
        elif now >= self._deadline:
            self._expire()
        elif self._responder is not None:
            self._responder.tick(now)

    # --- one after another --------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Tell whoever answers what has come, and begin what is next."""
        if self._advancing:
            return
        self._advancing = True
        try:
            while self._step():
                pass
        finally:
            self._advancing = False

    def _step(self) -> bool:
        """Whether there may be more to do."""
        request, reader = self._current, self._reader
        if request is None:
            if self.paused:
                self._deadline = NEVER  # the time for a client that reads nothing is another one
                return False
            if reader.queue:
                self._begin(reader.queue.popleft())
                return True
            if self._held and not reader.over:
                return self._parse_held()
            self._rest()
            return False
        if self._responder is None:
            return False  # the connection ends
        if request.has_news:
            request.has_news = False
            if not isinstance(self._responder, Discard):
                lasts = request.ended or request.is_socket
                self._deadline = NEVER if lasts else self.clock.now + self._host.body_timeout
            self._guarded(self._responder.on_body)
            return True
        if reader.fault is not None and not request.ended:
            self._give_up()
            return not self._begun
        if self._held and not (reader.over or reader.queue):
            return self._parse_held()
        return False

    def _rest(self) -> None:
        """There is nothing to do until more comes."""
        if self._reader.fault is not None:
            self.send(own_answer(self._reader.fault, None, self.clock))
            self._close()
        elif self._half_closed:
            self.close()
        elif self._deadline == NEVER or not self._reader.unspent:
            self._deadline = self.clock.now + self._host.idle_timeout
        elif self._deadline != self._head_deadline:
            # Once for each head: one that trickles would never end.
            self._deadline = self._head_deadline = self.clock.now + self._host.idle_timeout

    def _begin(self, request: Request) -> None:
        self._current = request
        self._begun = False
        if request.is_socket:
            self._deadline = NEVER  # it may be silent for as long as it likes
            _watch_peer(self.transport)
        else:
            self._deadline = self.clock.now + self._host.body_timeout
        self._responder = self._host.responder(self, request)
        self._guarded(self._responder.start)

    def _guarded(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as error:
            self.fail(error)

    def _give_up(self) -> None:
        """The rest of the current request cannot be read."""
        if self._begun:
            self._leave(Ending.ERROR)
            self.break_off()
        else:
            if self._current is not None and self._reader.fault is not None:
                self._reader.fault = worded(self._current.path, self._reader.fault)
            self._leave(Ending.ERROR, self._reader.fault)
            self._current = None

    def _hold(self, data: bytes) -> None:
        self._held += data
        if len(self._held) > _MAX_HELD:
            self.pause_reading()

    def _parse_held(self) -> bool:
        piece = bytes(self._held[:_SLICE])
        del self._held[:_SLICE]
        self.resume_reading()
        self._reader.feed(piece)
        return True

    # --- the end ------------------------------------------------------------------------------------------

    def _expire(self) -> None:
        request, self._deadline = self._current, NEVER
        if self._ending:
            self.abort()
        elif request is None or isinstance(self._responder, Discard):
            self.close()
        elif self._stalled:
            self._deadline = self.clock.now + self._host.body_timeout  # it is not the client who waits
        else:
            request.keep_alive = False
            pause = self._host.body_timeout
            self.fail(RequestTimeoutError(f"No more of the request body came within {pause:g} s"))

    def _close(self) -> None:
        """End the connection, but let the client read the answer first: closing would throw it away."""
        self._responder = None
        self._reader.over = self._ending = True
        if self._reader.fault is None and self._current is not None and self._current.ended:
            self.close()
        else:
            self.end_sending()
            self._deadline = self.clock.now + _LINGER

    def _leave(self, ending: Ending, told: Answer | None = None) -> None:
        responder, self._responder = self._responder, None
        if responder is not None:
            responder.lost(ending, told)

    def _probe(self) -> None:
        """Half of the connection was closed, or all of it: only what is sent finds out.

        Where nothing can be sent the client is taken to have left; one that reads on says so earlier.
        """
        if self._responder is None or self._current is None or self.transport.is_closing():
            return
        if self._begun:
            if not self._responder.probe():
                self._leave(Ending.CLIENT_LEFT)
                self.abort()
        elif not self._current.is_old:
            self.send(CONTINUE)


def _watch_peer(transport: asyncio.Transport) -> None:
    """Find out by and by if the other side's machine is gone."""
    connection: socket.socket = transport.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", _PEER_IDLE),
        ("TCP_KEEPINTVL", _PEER_AGAIN),
        ("TCP_KEEPCNT", _PEER_TRIES),
    ):
        if hasattr(socket, name):  # macOS has another name for the first
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
